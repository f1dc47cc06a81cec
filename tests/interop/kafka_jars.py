"""Runs Apache Kafka's nodes, tools and other classes, for tests that compare Ottla with Kafka."""

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from scripts import apache_kafka, maven

from ottla.net.ports import free_port

START_SECONDS = 90
SMALL = ("-Xmx512M", *apache_kafka.SHORT_LIVED)
FEW_PARTITIONS = {"transaction.state.log.num.partitions": 5, "share.coordinator.state.topic.num.partitions": 5}
"""Of internal topics: each of Kafka's 50 has indexes of 20 MiB, which some tests copy. Benchmarks keep its default."""


@cache
def _missing() -> str | None:
    return apache_kafka.missing()


def run_tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a class of Kafka to its end, and capture its output. Skip the test if Kafka is not available."""
    reason = _missing()
    if reason:
        pytest.skip(f"Apache Kafka's tools: {reason}")
    return apache_kafka.tool(name, *arguments)


def prepare_node(
    directory: Path,
    port: int,
    version: str = apache_kafka.VERSION,
    configs: Mapping[str, object] = apache_kafka.NO_CONFIGS,
) -> list[str]:
    """Configure and format a node that is small and starts quickly, and return the command that runs it."""
    return apache_kafka.prepare_node(directory, port, version, {**FEW_PARTITIONS, **configs}, _node_jvm(version))


def node(properties: Path, version: str = apache_kafka.VERSION) -> list[str]:
    """Return the command that runs a node with this configuration."""
    return apache_kafka.java("kafka.Kafka", str(properties), version=version, heap=_node_jvm(version))


@cache
def _node_jvm(version: str) -> tuple[str, ...]:
    """Return a node's JVM options, with an archive of its classes, which halves the startup time (JEP 350)."""
    archive = apache_kafka.class_archive(version)
    with maven.locked(f"kafka-{version}-archive"):
        if not archive.exists():
            port = free_port(in_a_row=2)
            with tempfile.TemporaryDirectory(dir=archive.parent) as directory:
                written = Path(directory) / archive.name
                options = (*SMALL, f"-XX:ArchiveClassesAtExit={written}")
                command = apache_kafka.prepare_node(Path(directory), port, version, jvm=options)
                with server(command, port, Path(directory) / "out.txt"):
                    pass
                if written.exists():  # not if the node had to be killed
                    os.replace(written, archive)
    return (*SMALL, f"-XX:SharedArchiveFile={archive}")


@contextlib.contextmanager
def kafka(directory: Path, port: int, *, kill: bool = False, version: str = apache_kafka.VERSION) -> Iterator[str]:
    """Run a node on the data in `directory`, and yield its address."""
    if not (directory / "log").exists():
        prepare_node(directory, port, version)
    command = node(directory / "server.properties", version)
    with server(command, port, directory / "out.txt", kill=kill):
        yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def server(command: list[str], port: int, out: Path, *, kill: bool = False) -> Iterator[None]:
    """Run a process, and wait until its port accepts connections."""
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
