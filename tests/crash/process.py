"""A broker in its own process, which can be killed."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.net.ports import free_port

START_SECONDS = 30.0


def _drain(process: subprocess.Popen[bytes]) -> None:
    """Read the broker's output, so that the broker never blocks on a full pipe."""
    assert process.stderr is not None
    with process.stderr as stderr:
        os.set_blocking(stderr.fileno(), True)
        while stderr.read(65536):
            pass


class BrokerProcess:
    """`ottla broker` with a fixed address and data directory, which can be started, stopped and killed repeatedly."""

    def __init__(self, data: Path, *, max_file_bytes: int | None = None, **options: object) -> None:
        self.data = data
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.options = {"listeners": f"PLAINTEXT://{self.bootstrap}", "log.dirs": data, **options}
        self._max_file_bytes = max_file_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self.output = ""

    def start(self) -> Self:
        """Start the broker, and wait until it logs that it is ready."""
        overrides = [f"--override={key.replace('_', '.')}={value}" for key, value in self.options.items()]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ottla", "broker", *overrides], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        if self._max_file_bytes is not None:
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (self._max_file_bytes, self._max_file_bytes))
        assert self._process.stderr is not None
        os.set_blocking(self._process.stderr.fileno(), False)
        self.output = ""
        while "is ready" not in self.output:
            ready, _, _ = select.select([self._process.stderr], [], [], START_SECONDS)
            piece = self._process.stderr.read() if ready else b""
            assert piece, f"the broker did not start: {self.output}"
            self.output += piece.decode()
        threading.Thread(target=_drain, args=(self._process,), daemon=True).start()
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Stop with a controlled shutdown, and return the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        code = self._process.wait(START_SECONDS)
        self._process = None
        return code

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()
