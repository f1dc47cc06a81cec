"""The child processes of a demo, such as broker and Spark. On Linux, they receive SIGTERM when their parent ends."""

from __future__ import annotations

import ctypes
import fcntl
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ottla.errors import KafkaError
from ottla.net.ports import free_port

STOP_TIMEOUT_S = 15.0
BROKER_START_TIMEOUT_S = 30.0
_TAIL_LINES = 12


class ProcessEndedError(KafkaError):
    """Raised if a process ended too early, or did not start or complete its work in time."""


class Child:
    """A child process with a log file. `facts` merges the JSON objects that the process has written to stdout."""

    def __init__(self, name: str, command: Sequence[str], logs: Path) -> None:
        self.name = name
        self.log = logs / f"{name}.log"
        self.facts: dict[str, Any] = {}
        """The last value of each fact that the process has reported. Another thread updates it."""
        logs.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # A new session, so that Ctrl+C only reaches the parent, which then stops the children in order.
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )
        self._listener = threading.Thread(target=self._listen, name=f"listen-{name}", daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                continue  # Output of a library.
            if isinstance(said, dict):
                self.facts.update(said)

    @property
    def is_running(self) -> bool:
        """Whether the process is running."""
        return self.process.poll() is None

    def check(self) -> None:
        """Raise ProcessEndedError if the process has failed."""
        code = self.process.poll()
        if code not in (None, 0):
            raise ProcessEndedError(
                f"{self.name} ended too early ({_reason(code)}); {self.log} ends with:\n{self.log_tail()}"
            )

    def log_tail(self) -> str:
        """Return the last twelve lines of the process's log."""
        with self.log.open(errors="replace") as log:
            return "".join(deque(log, _TAIL_LINES)).rstrip()

    def finish(self) -> None:
        """Wait until the process has ended, and then at most STOP_TIMEOUT_S seconds until its output has been read."""
        self.process.wait()
        self._listener.join(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """Kill the process with SIGKILL, and wait for its end."""
        self.process.kill()
        self.finish()

    def stop(self) -> None:
        """Send SIGTERM to the process, kill it if it does not end within 15 seconds, and wait for its end."""
        if self.is_running:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.finish()


def _reason(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def die_with_parent() -> Callable[[], None] | None:
    """Return a function that makes the kernel send SIGTERM to the child when its parent ends. Return None if the
    platform is not Linux.
    """
    if sys.platform != "linux":
        return None
    # Loaded before the fork, because only simple calls are safe between fork and exec.
    libc = ctypes.CDLL(None, use_errno=True)
    set_death_signal = 1

    def set_parent_death_signal() -> None:
        libc.prctl(set_death_signal, signal.SIGTERM)

    return set_parent_death_signal


def wait_for_release(lock: Path) -> None:
    """Wait at most 15 seconds while another process has locked a file. A broker whose parent was killed needs some time
    to shut down.
    """
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while lock.exists() and time.monotonic() < deadline:
        with lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                time.sleep(0.05)


def start_broker(data: Path, logs: Path) -> tuple[Child, str]:
    """Start a broker and wait until it accepts connections. Return its process and address. Raises ProcessEndedError if
    it does not start within 30 seconds.
    """
    wait_for_release(data / ".lock")
    port = free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "ottla.http.listener": "",  # its default port is for the user's own broker
    }
    overrides = [part for key, value in settings.items() for part in ("--override", f"{key}={value}")]
    broker = Child("broker", [sys.executable, "-m", "ottla", "broker", *overrides], logs)
    deadline = time.monotonic() + BROKER_START_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return broker, f"127.0.0.1:{port}"
        except OSError:
            if not broker.is_running:
                break
            time.sleep(0.02)
    broker.stop()
    raise ProcessEndedError(f"the broker did not start; {broker.log} ends with:\n{broker.log_tail()}")


def start_module(name: str, module: str, arguments: Sequence[str], logs: Path) -> Child:
    """Start `python -m module` with this interpreter, and return its process."""
    return Child(name, [sys.executable, "-m", module, *arguments], logs)
