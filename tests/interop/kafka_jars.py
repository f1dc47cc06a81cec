"""Apache Kafka's own classes, for tests that let Kafka judge us."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from scripts import apache_kafka

START_SECONDS = 90
NODE_HEAP = ("-Xmx512M", *apache_kafka.SHORT_LIVED)


@cache
def _missing() -> str | None:
    return apache_kafka.missing()


def run_tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a class of Kafka's to its end, with its output as text. Skips the test where it cannot be had."""
    reason = _missing()
    if reason:
        pytest.skip(f"Apache Kafka's tools: {reason}")
    return apache_kafka.tool(name, *arguments)


@contextlib.contextmanager
def kafka(directory: Path, port: int, *, kill: bool = False, version: str = apache_kafka.VERSION) -> Iterator[str]:
    """A running node on the data in `directory`; its address."""
    if not (directory / "log").exists():
        apache_kafka.prepare_node(directory, port, version)
    properties = str(directory / "server.properties")
    command = apache_kafka.java("kafka.Kafka", properties, version=version, heap=NODE_HEAP)
    with server(command, port, directory / "out.txt", kill=kill):
        yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def server(command: list[str], port: int, out: Path, *, kill: bool = False) -> Iterator[None]:
    """A process that is up when its port answers."""
    with out.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + START_SECONDS
        while True:
            assert process.poll() is None, out.read_text()[-3000:]
            assert time.monotonic() < deadline, "the server does not start"
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield
    finally:
        if kill:
            process.kill()
            process.wait()
        else:
            apache_kafka.wait_for_end(process)
