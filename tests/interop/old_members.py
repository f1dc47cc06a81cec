"""Members of 0.8's groups in ZooKeeper, ours and Java's, that record the messages they read."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from scripts.apache_kafka import wait_for_end
from tests.interop.java_clients import java_command

from ottla.legacy import Consumer, ConsumerConfig, KafkaStream, MessageAndMetadata

Seen = tuple[int, int, str]
"""Partition, offset, message."""


def options(connect: str, group: str, name: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
    return {
        "zookeeper.connect": connect,
        "group.id": group,
        "consumer.id": name,
        "zookeeper.session.timeout.ms": "1500",
        "rebalance.backoff.ms": "200",
        "rebalance.max.retries": "30",
        "refresh.leader.backoff.ms": "50",
        "auto.offset.reset": "smallest",
        **(more or {}),
    }


class OurMember:
    """A connector with a thread for each stream."""

    def __init__(self, options: Mapping[str, str], topic: str, threads: int = 1) -> None:
        self.connector = Consumer.create_java_consumer_connector(ConsumerConfig(options))
        self.messages: list[Seen] = []
        for stream in self.connector.create_message_streams({topic: threads})[topic]:
            threading.Thread(target=self._read, args=[stream], daemon=True).start()

    def _read(self, stream: KafkaStream) -> None:
        for message in stream:
            self.messages.append(seen(message))

    def seen(self) -> list[Seen]:
        return list(self.messages)

    def close(self) -> None:
        self.connector.shutdown()


def seen(actual: MessageAndMetadata) -> Seen:
    return actual.partition, actual.offset, actual.message.decode()


class JavaMember:
    """Kafka 0.8.2's high-level consumer in its own process."""

    def __init__(self, options: Mapping[str, str], topic: str, folder: Path, threads: int = 1) -> None:
        self.output = folder / f"{options['consumer.id']}.out"
        settings = [f"{name}={value}" for name, value in options.items()]
        command = java_command("kafka_2.10", "0.8.2.2", "OldConsumer", topic, str(threads), *settings)
        with self.output.open("wb") as out, (folder / "java.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=log)

    def seen(self) -> list[Seen]:
        lines = self.output.read_text().splitlines(keepends=True)
        fields = [line.split() for line in lines if line.endswith("\n") and line != "ready\n"]
        return [(int(partition), int(offset), message) for partition, offset, message in fields]

    def close(self) -> None:
        """Shut down cleanly, so that the member leaves the group."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)

    def kill(self) -> None:
        self.process.kill()
        wait_for_end(self.process)
