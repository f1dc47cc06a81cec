"""Instances of a Kafka Streams application that counts words, with `group.protocol=streams`."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections import Counter
from pathlib import Path
from types import TracebackType

from tests.interop.eventually import eventually
from tests.interop.java_clients import java_command

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic
from ottla.client.admin.groups.streams_groups import StreamsGroupDescription
from ottla.errors import KafkaError

WORDS = ("log", "segment", "index", "offset", "epoch")
SECONDS = 90


class WordCount:
    """The application on a broker: its topics, its instances, and the counts that its readers must see."""

    def __init__(self, servers: str, directory: Path, topic: str, version: str, partitions: int = 4) -> None:
        self.servers, self.topic, self.output = servers, topic, f"{topic}-counts"
        self.group = f"count-{topic}"
        self.sent: Counter[str] = Counter()
        self._directory = directory
        self._instances: list[subprocess.Popen[bytes]] = []
        self._version, self._partitions = version, partitions
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(topic, partitions, 1), NewTopic(self.output, 1, 1)])

    def __enter__(self) -> WordCount:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for instance in self._instances:
            instance.kill()
            instance.wait()

    def start(self, guarantee: str = "exactly_once_v2") -> subprocess.Popen[bytes]:
        """Start an instance with its own state directory."""
        state = self._directory / f"state-{len(self._instances)}"
        arguments = ("count", self.servers, self.topic, self.output, guarantee, str(state), "streams")
        command = java_command("kafka-streams", self._version, "WordCount", *arguments, with_=("Check",))
        with state.with_suffix(".txt").open("wb") as output:
            instance = subprocess.Popen(command, stdout=output, stderr=output)
        self._instances.append(instance)
        return instance

    def stop(self, instance: subprocess.Popen[bytes]) -> None:
        """Stop an instance, which leaves the group."""
        instance.terminate()
        instance.wait(30)

    def stop_all(self) -> None:
        for instance in self._instances:
            if instance.poll() is None:
                self.stop(instance)

    def send(self, lines: int = 200) -> None:
        """Send lines of two words to all partitions."""
        with KafkaProducer(bootstrap_servers=self.servers) as producer:
            for n in range(lines):
                words = WORDS[n % len(WORDS)], WORDS[n * 7 % 3]
                self.sent.update(words)
                producer.send(self.topic, " ".join(words).encode(), partition=n % self._partitions)

    def counts(self) -> tuple[dict[str, int], int]:
        """Return the last committed count of each word, and how many counts were not one more than the previous one."""
        last: dict[str, int] = {}
        repeated = 0
        with KafkaConsumer(
            self.output,
            bootstrap_servers=self.servers,
            group_id=None,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            deadline = time.monotonic() + SECONDS
            while last != dict(self.sent):
                assert time.monotonic() < deadline, (last, self.sent, self.outputs())
                for records in consumer.poll(timeout_ms=500).values():
                    for record in records:
                        word, count = record.key.decode(), int.from_bytes(record.value, "big")
                        repeated += count != last.get(word, 0) + 1
                        last[word] = count
        return last, repeated

    def wait_stable(self, members: int) -> StreamsGroupDescription:
        """Wait until the group has this number of members, which have all tasks."""
        described: list[StreamsGroupDescription] = []

        def is_stable() -> bool:
            with KafkaAdminClient(bootstrap_servers=self.servers) as admin, contextlib.suppress(KafkaError):
                described.append(admin.describe_streams_groups([self.group])[self.group])
                tasks = sum(len(p) for m in described[-1].members for p in m.assignment.active.values())
                expected = ("Stable", members, 2 * self._partitions if members else 0)
                return (described[-1].state, len(described[-1].members), tasks) == expected
            return False

        eventually(is_stable, SECONDS)
        return described[-1]

    def outputs(self) -> str:
        """Return what the instances have printed, for a test that fails."""
        return "\n".join(path.read_text()[-2000:] for path in sorted(self._directory.glob("state-*.txt")))
