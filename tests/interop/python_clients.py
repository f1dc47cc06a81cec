"""Third-party clients behind one interface, so that one scenario tests the broker with each of them."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import signal
import subprocess
import threading
from collections.abc import Sequence
from importlib import metadata
from typing import Any, Protocol

from scripts import debian

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMEOUT = 60.0


class Member(Protocol):
    """A member of a consumer group that collects the values it reads."""

    def close(self) -> None:
        """Leave the group and commit."""


class Client(Protocol):
    """The interface of a client in a scenario."""

    name: str

    @staticmethod
    def missing() -> str | None:
        """Return why this client is not available, or None."""

    @staticmethod
    def version() -> str:
        """Return the installed version of the client."""

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None: ...

    def produce(self, bootstrap: str, topic: str, values: Sequence[str], codec: str) -> None: ...

    def join(self, bootstrap: str, group: str, topic: str, seen: Seen) -> Member: ...


class Seen:
    """Values read by all members together. Thread-safe; `wait` needs no polling."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._added = threading.Condition()

    def add(self, value: str) -> None:
        with self._added:
            self.values.append(value)
            self._added.notify_all()

    def wait(self, count: int, seconds: float = TIMEOUT) -> bool:
        with self._added:
            return self._added.wait_for(lambda: len(self.values) >= count, seconds)


def module_missing(name: str) -> str | None:
    return None if importlib.util.find_spec(name) else f"{name} is not installed"


def kcat_version() -> str:
    """Return the version that `kcat -V` prints: "Version 1.7.1 (JSON, …, librdkafka 2.0.2 …)"."""
    output = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"Version ([\d.]+)", output)
    library = re.search(r"librdkafka ([\d.]+)", output)
    return f"{match[1] if match else '?'} (librdkafka {library[1] if library else '?'})"


class Kcat:
    name = "kcat"

    @staticmethod
    def missing() -> str | None:
        return None if debian.program("kcat") else "apt-get could not install kcat"

    @staticmethod
    def version() -> str:
        return kcat_version()

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        # kcat cannot create topics: a metadata request creates it automatically
        subprocess.run(
            ["kcat", "-b", bootstrap, "-L", "-t", topic, "-X", "allow.auto.create.topics=true"],
            check=True,
            capture_output=True,
        )

    def produce(self, bootstrap: str, topic: str, values: Sequence[str], codec: str) -> None:
        command = ["kcat", "-b", bootstrap, "-P", "-t", topic, "-X", "acks=all", "-z", codec]
        subprocess.run(command, input="\n".join(values) + "\n", text=True, check=True, timeout=TIMEOUT)

    def join(self, bootstrap: str, group: str, topic: str, seen: Seen) -> Member:
        return _KcatMember(bootstrap, group, topic, seen)


class _KcatMember:
    def __init__(self, bootstrap: str, group: str, topic: str, seen: Seen) -> None:
        command = ["kcat", "-b", bootstrap, "-u", "-q", "-X", "auto.offset.reset=earliest", "-G", group, topic]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._read, args=(seen,))
        self._thread.start()

    def _read(self, seen: Seen) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            seen.add(line.rstrip("\n"))

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(TIMEOUT)
        self._thread.join(TIMEOUT)


class _ThreadMember:
    """A member that polls in a thread."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        raise AssertionError("a subclass must implement _loop")

    def close(self) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive(), "the member did not close"


class Confluent:
    name = "confluent-kafka"

    @staticmethod
    def missing() -> str | None:
        return module_missing("confluent_kafka")

    @staticmethod
    def version() -> str:
        return metadata.version("confluent-kafka")

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        admin = AdminClient({"bootstrap.servers": bootstrap})  # its futures fail when it is collected
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(TIMEOUT)

    def produce(self, bootstrap: str, topic: str, values: Sequence[str], codec: str) -> None:
        from confluent_kafka import Producer

        failed: list[str] = []
        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True, "linger.ms": 5}
        )

        def on_delivery(error: Any, _: Any) -> None:
            if error:
                failed.append(str(error))

        for value in values:
            producer.produce(topic, value.encode(), on_delivery=on_delivery)
        assert producer.flush(TIMEOUT) == 0
        assert not failed

    def join(self, bootstrap: str, group: str, topic: str, seen: Seen) -> Member:
        return _ConfluentMember(bootstrap, group, topic, seen)


class _ConfluentMember(_ThreadMember):
    def __init__(self, bootstrap: str, group: str, topic: str, seen: Seen) -> None:
        from confluent_kafka import Consumer

        self._seen = seen
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
            }
        )
        self._consumer.subscribe([topic])
        super().__init__()

    def _loop(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is not None:
                assert message.error() is None, message.error()
                self._seen.add((message.value() or b"").decode())
        self._consumer.close()


class KafkaPython:
    name = "kafka-python"

    @staticmethod
    def missing() -> str | None:
        return module_missing("kafka")

    @staticmethod
    def version() -> str:
        return metadata.version("kafka-python")

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        from kafka.admin import KafkaAdminClient, NewTopic

        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        admin.create_topics([NewTopic(topic, partitions, 1)])
        admin.close()

    def produce(self, bootstrap: str, topic: str, values: Sequence[str], codec: str) -> None:
        from kafka import KafkaProducer

        kind = None if codec == "none" else codec
        producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=kind, linger_ms=5)
        futures = [producer.send(topic, value.encode()) for value in values]
        producer.flush(TIMEOUT)
        for future in futures:
            future.get(TIMEOUT)
        producer.close()

    def join(self, bootstrap: str, group: str, topic: str, seen: Seen) -> Member:
        return _KafkaPythonMember(bootstrap, group, topic, seen)


class _KafkaPythonMember(_ThreadMember):
    def __init__(self, bootstrap: str, group: str, topic: str, seen: Seen) -> None:
        self._arguments = (bootstrap, group, topic)
        self._seen = seen
        super().__init__()

    def _loop(self) -> None:
        from kafka import KafkaConsumer

        bootstrap, group, topic = self._arguments
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=500,
        )
        # A group leader without metadata of the topic assigns no partitions, and joins again once it has them. That
        # second rebalance never completes if a poll times out during it, since kafka-python 3.0 checks again whether
        # it has to join, but not whether it is joining. So the metadata are fetched before the first poll.
        assert consumer.partitions_for_topic(topic)
        while not self._stop.is_set():
            for records in consumer.poll(100).values():
                for record in records:
                    self._seen.add(record.value.decode())
        consumer.close()


class AioKafka:
    name = "aiokafka"

    @staticmethod
    def missing() -> str | None:
        return module_missing("aiokafka")

    @staticmethod
    def version() -> str:
        return metadata.version("aiokafka")

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        asyncio.run(self._create(bootstrap, topic, partitions))

    async def _create(self, bootstrap: str, topic: str, partitions: int) -> None:
        from aiokafka.admin import AIOKafkaAdminClient, NewTopic

        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(topic, partitions, 1)])
        finally:
            await admin.close()

    def produce(self, bootstrap: str, topic: str, values: Sequence[str], codec: str) -> None:
        asyncio.run(self._produce(bootstrap, topic, values, codec))

    async def _produce(self, bootstrap: str, topic: str, values: Sequence[str], codec: str) -> None:
        from aiokafka import AIOKafkaProducer

        kind = None if codec == "none" else codec
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=kind, enable_idempotence=True
        ) as producer:
            for future in [await producer.send(topic, value.encode()) for value in values]:
                await asyncio.wait_for(future, TIMEOUT)

    def join(self, bootstrap: str, group: str, topic: str, seen: Seen) -> Member:
        return _AioKafkaMember(bootstrap, group, topic, seen)


class _AioKafkaMember(_ThreadMember):
    def __init__(self, bootstrap: str, group: str, topic: str, seen: Seen) -> None:
        self._arguments = (bootstrap, group, topic)
        self._seen = seen
        super().__init__()

    def _loop(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        from aiokafka import AIOKafkaConsumer

        bootstrap, group, topic = self._arguments
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", heartbeat_interval_ms=500
        )
        await consumer.start()
        try:
            while not self._stop.is_set():
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    for record in records:
                        self._seen.add(record.value.decode())
        finally:
            await consumer.stop()


CLIENTS: tuple[Client, ...] = (Kcat(), Confluent(), KafkaPython(), AioKafka())
"""Every client that the scenarios run with."""
