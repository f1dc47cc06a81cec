"""Brokers to measure: Ottla of this checkout or another one, and Apache Kafka, each a process on loopback."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ottla.net.ports import free_port

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
START_SECONDS = 60
IDLE_SECONDS = 3
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Of the brokers: they load compiled modules, as an installed Ottla does; compiling takes longer than a start."""


class Broker:
    """A broker to measure."""

    def __init__(self, name: str, command: Callable[[Path, int], list[str]]) -> None:
        self.name = name
        self._command = command
        self.start_seconds = self.idle_mb = 0.0

    def start(self, environment: Callable[[Path], dict[str, str]] = lambda _: {}) -> None:
        """Start, and wait for the first response and IDLE_SECONDS more.

        `environment` returns further variables of the process, given the directory of its data.
        """
        self.directory = Path(tempfile.mkdtemp(prefix=f"bench-{self.name}-"))
        self.port = free_port(in_a_row=2)
        command = self._command(self.directory, self.port)
        began = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            env=ENVIRONMENT | environment(self.directory),
        )
        wait_for_answer(self.port)
        self.start_seconds = time.perf_counter() - began
        time.sleep(IDLE_SECONDS)
        self.idle_mb = self.rss_mb()

    def stop(self) -> None:
        """Stop, and delete the data."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def cpu_seconds(self) -> float:
        """Return the user and system time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def rss_mb(self) -> float:
        """Return the resident memory."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * PAGE / 1e6


def wait_for_answer(port: int) -> None:
    """Wait until ApiVersions is answered."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as sock:
                sock.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
                if sock.recv(4):
                    return
        except OSError:
            time.sleep(0.005)
    raise SystemExit(f"the broker on port {port} did not start")


def ottla_command(directory: Path, port: int, python: str = sys.executable) -> list[str]:
    """Return the command of an Ottla broker with its defaults."""
    options = (f"--override=listeners=PLAINTEXT://127.0.0.1:{port}", f"--override=log.dirs={directory}")
    return [python, "-m", "ottla", "broker", *options]
