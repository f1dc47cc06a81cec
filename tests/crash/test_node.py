"""`ottla broker --brokers N`: its processes, started, killed, restarted and stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic

READY = re.compile(r"is ready: (\d+) brokers, (.*), \d+ ms")
WAIT_SECONDS = 60.0


class RunningNode:
    """The parent process, and the lines of its output."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._more:
                self.lines.append(line)
                self._more.notify_all()

    def join(self) -> None:
        """Wait until the parent and its brokers have closed their output."""
        self._reader.join(WAIT_SECONDS)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Return the first match in the output."""
        with self._more:
            match = self._more.wait_for(lambda: re.search(pattern, "".join(self.lines)), WAIT_SECONDS)
        assert isinstance(match, re.Match), self.lines
        return match

    @property
    def bootstrap(self) -> list[str]:
        return re.findall(r"PLAINTEXT://([\d.]+:\d+)", self.wait_for(READY.pattern)[2])

    @property
    def children(self) -> list[int]:
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def node(directory: Path, *arguments: str) -> Iterator[RunningNode]:
    configs = ["--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", f"log.dirs={directory}"]
    command = [sys.executable, "-m", "ottla", "broker", *configs, *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        running = RunningNode(process)
        try:
            yield running
        finally:
            process.kill()
            running.join()


def test_node_of_three_brokers_survives_the_death_of_each(tmp_path: Path) -> None:
    topic = NewTopic("visits", num_partitions=6, replication_factor=3, topic_configs={"min.insync.replicas": "2"})
    with node(tmp_path, "--brokers", "3") as running:
        servers = running.bootstrap
        assert len(servers) == 3
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics([topic])
        with KafkaProducer(bootstrap_servers=servers, acks="all") as producer:
            for number, child in enumerate(running.children):
                futures = [producer.send("visits", b"%d-%d" % (number, i)) for i in range(100)]
                os.kill(child, signal.SIGKILL)
                futures += [producer.send("visits", b"%d-%d" % (number, i)) for i in range(100, 200)]
                for future in futures:
                    future.get(WAIT_SECONDS)
                wait_until_in_sync(servers)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(WAIT_SECONDS) == 0
    assert len([line for line in running.lines if "restarting it" in line]) == 3
    with node(tmp_path, "--brokers", "3") as running:
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 60_000}
        with KafkaConsumer("visits", bootstrap_servers=running.bootstrap, **options) as consumer:
            values = {next(consumer).value for _ in range(600)}
    assert values == {b"%d-%d" % (number, i) for number in range(3) for i in range(200)}


def wait_until_in_sync(servers: list[str]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        while True:
            partitions = admin.describe_topics(["visits"])["visits"].partitions
            if all(len(partition.isr) == 3 for partition in partitions):
                return
            assert time.monotonic() < deadline, partitions
            time.sleep(0.05)


def test_brokers_do_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    with node(tmp_path, "--brokers", "2") as running:
        running.wait_for(READY.pattern)
        children = running.children
        assert len(children) == 2
        running.process.kill()
        deadline = time.monotonic() + WAIT_SECONDS
        while any(Path(f"/proc/{child}").exists() and not is_zombie(child) for child in children):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    for broker_id in range(2):
        assert (tmp_path / f"broker-{broker_id}" / ".kafka_cleanshutdown").exists()


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_broker_that_cannot_start_stops_the_node(tmp_path: Path) -> None:
    (tmp_path / "broker-1").write_text("not a directory")
    with node(tmp_path, "--brokers", "2") as running:
        assert running.process.wait(WAIT_SECONDS) == 1
        running.wait_for("broker-1 is not a directory")
        running.wait_for("broker 1 did not start")


def test_interrupt_shuts_down_all_brokers_cleanly(tmp_path: Path) -> None:
    with node(tmp_path, "--brokers", "2") as running:
        running.wait_for(READY.pattern)
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(WAIT_SECONDS) == 0
    assert all((tmp_path / f"broker-{number}" / ".kafka_cleanshutdown").exists() for number in range(2))


def test_interrupt_during_startup_leaves_no_process(tmp_path: Path) -> None:
    with node(tmp_path, "--brokers", "2") as running:
        while not running.children:
            time.sleep(0.01)
        children = running.children
        running.process.send_signal(signal.SIGTERM)
        running.process.wait(WAIT_SECONDS)
        assert all(not Path(f"/proc/{child}").exists() or is_zombie(child) for child in children)
