"""Runs Java tools in one JVM. Starting a JVM for each takes most of a second of CPU."""

from __future__ import annotations

import struct
import subprocess
import threading
from collections.abc import Sequence

STOP_SECONDS = 10


class ToolHost:
    """A JVM that runs tools one after the other. One thread at a time."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._jvm: subprocess.Popen[bytes] | None = None

    def run(self, main: str, arguments: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
        """Run a tool until it ends. Raises subprocess.TimeoutExpired, and ends the JVM then."""
        jvm = self._jvm = self._jvm or self._started()
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            jvm.kill()

        timer = threading.Timer(timeout, expire)
        timer.start()
        try:
            self._send(jvm, [main, *arguments])
            status = self._number(jvm)
            out, err = (self._bytes(jvm, self._number(jvm)).decode() for _ in range(2))
        except (EOFError, BrokenPipeError):
            self.close()
            if expired.is_set():
                raise subprocess.TimeoutExpired([main, *arguments], timeout) from None
            raise
        finally:
            timer.cancel()
        if status:
            self.close()  # a tool that failed may have left threads and connections
        return subprocess.CompletedProcess([main, *arguments], status, out, err)

    def close(self) -> None:
        """End the JVM."""
        jvm, self._jvm = self._jvm, None
        if jvm is not None:
            jvm.kill()
            jvm.communicate(timeout=STOP_SECONDS)

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @staticmethod
    def _send(jvm: subprocess.Popen[bytes], command: Sequence[str]) -> None:
        assert jvm.stdin is not None
        encoded = [text.encode() for text in command]
        lengths_and_texts = b"".join(struct.pack(">H", len(text)) + text for text in encoded)
        jvm.stdin.write(struct.pack(">i", len(command)) + lengths_and_texts)
        jvm.stdin.flush()

    def _number(self, jvm: subprocess.Popen[bytes]) -> int:
        (number,) = struct.unpack(">i", self._bytes(jvm, 4))
        return int(number)

    @staticmethod
    def _bytes(jvm: subprocess.Popen[bytes], length: int) -> bytes:
        assert jvm.stdout is not None
        data = jvm.stdout.read(length)
        if len(data) < length:
            raise EOFError("the JVM has ended")
        return data
