"""Clients on listeners with TLS and SASL: each produces records and consumes them, with its own configs."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from scripts import apache_kafka, debian
from tests.interop.kafka_jars import run_tool
from tests.interop.python_clients import TIMEOUT, module_missing

from ottla import KafkaConsumer, KafkaProducer

Copy = Callable[["Access", str, Sequence[str], Path], list[str]]


class Access(NamedTuple):
    """Address and credentials for a listener. Files are PEM; `key` contains the client's certificate as well."""

    bootstrap: str
    protocol: str
    ca: Path
    key: Path | None = None
    mechanism: str = ""
    user: str = ""
    password: str = ""
    by_token: bool = False
    """Whether user and password are the ID and the HMAC of a delegation token."""

    @property
    def librdkafka(self) -> dict[str, str]:
        options = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.protocol.endswith("SSL"):
            options["ssl.ca.location"] = str(self.ca)
        if self.key is not None:
            options |= {"ssl.certificate.location": str(self.key), "ssl.key.location": str(self.key)}
        if self.mechanism:
            options |= {"sasl.mechanism": self.mechanism}
            options |= {"sasl.username": self.user, "sasl.password": self.password}
        return options

    @property
    def python(self) -> dict[str, Any]:
        """The options that kafka-python, aiokafka and Ottla have in common."""
        options: dict[str, Any] = {"bootstrap_servers": self.bootstrap, "security_protocol": self.protocol}
        if self.mechanism:
            options |= {"sasl_mechanism": self.mechanism}
            options |= {"sasl_plain_username": self.user, "sasl_plain_password": self.password}
        if self.by_token:
            options["sasl_tokenauth"] = True
        return options

    @property
    def pem(self) -> dict[str, Any]:
        """TLS options of kafka-python."""
        files: dict[str, Any] = {"ssl_cafile": str(self.ca)} if self.protocol.endswith("SSL") else {}
        if self.key is not None:
            files |= {"ssl_certfile": str(self.key), "ssl_keyfile": str(self.key)}
        return files

    @property
    def java(self) -> dict[str, str]:
        options = {"security.protocol": self.protocol}
        if self.protocol.endswith("SSL"):
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca)}
        if self.key is not None:
            options |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.key)}
        if self.mechanism:
            kind = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
            options["sasl.mechanism"] = self.mechanism
            options["sasl.jaas.config"] = (
                f'org.apache.kafka.common.security.{kind} required username="{self.user}" password="{self.password}"'
                + (' tokenauth="true";' if self.by_token else ";")
            )
        return options


def kcat(access: Access, topic: str, values: Sequence[str], folder: Path) -> list[str]:
    if debian.program("kcat") is None:
        pytest.skip("apt-get could not install kcat")
    options = [part for name, value in access.librdkafka.items() for part in ("-X", f"{name}={value}")]
    text = "\n".join(values) + "\n"
    command = ["kcat", *options, "-t", topic]
    subprocess.run([*command, "-P", "-X", "acks=all"], input=text, text=True, check=True, timeout=TIMEOUT)
    reading = [*command, "-C", "-e", "-q", "-o", "beginning"]
    return subprocess.run(reading, capture_output=True, text=True, check=True, timeout=TIMEOUT).stdout.splitlines()


def confluent_kafka(access: Access, topic: str, values: Sequence[str], folder: Path) -> list[str]:
    if reason := module_missing("confluent_kafka"):
        pytest.skip(reason)
    from confluent_kafka import Consumer, Producer

    producer = Producer(access.librdkafka)
    for value in values:
        producer.produce(topic, value.encode())
    assert producer.flush(TIMEOUT) == 0
    consumer = Consumer({**access.librdkafka, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    records = [(message.value() or b"").decode() for message in consumer.consume(len(values), TIMEOUT)]
    consumer.close()
    return records


def kafka_python(access: Access, topic: str, values: Sequence[str], folder: Path) -> list[str]:
    if reason := module_missing("kafka"):
        pytest.skip(reason)
    from kafka import KafkaConsumer as Consumer
    from kafka import KafkaProducer as Producer

    options = {**access.python, **access.pem}
    producer = Producer(**options)
    for value in values:
        producer.send(topic, value.encode())
    producer.flush(TIMEOUT)
    producer.close()
    consumer = Consumer(topic, **options, group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=30_000)
    records = [record.value.decode() for _, record in zip(values, consumer, strict=False)]
    consumer.close()
    return records


def aiokafka(access: Access, topic: str, values: Sequence[str], folder: Path) -> list[str]:
    if reason := module_missing("aiokafka"):
        pytest.skip(reason)
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    options = dict(access.python)
    if access.protocol.endswith("SSL"):
        options["ssl_context"] = ssl.create_default_context(cafile=str(access.ca))
    if access.key is not None:
        options["ssl_context"].load_cert_chain(access.key)

    async def copy() -> list[str]:
        async with AIOKafkaProducer(**options) as producer:
            for future in [await producer.send(topic, value.encode()) for value in values]:
                await asyncio.wait_for(future, TIMEOUT)
        result: list[str] = []
        async with AIOKafkaConsumer(topic, **options, group_id=topic, auto_offset_reset="earliest") as consumer:
            async with asyncio.timeout(TIMEOUT):
                while len(result) < len(values):
                    for records in (await consumer.getmany(timeout_ms=500)).values():
                        result += [record.value.decode() for record in records]
        return result

    return asyncio.run(copy())


def java(access: Access, topic: str, values: Sequence[str], folder: Path) -> list[str]:
    config = folder / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in access.java.items()))
    if reason := apache_kafka.missing():
        pytest.skip(f"Apache Kafka's tools: {reason}")
    writing = ("--bootstrap-server", access.bootstrap, "--topic", topic, "--command-config", str(config))
    subprocess.run(
        apache_kafka.java("org.apache.kafka.tools.ConsoleProducer", *writing),
        input="\n".join(values) + "\n",
        text=True,
        check=True,
        capture_output=True,
        timeout=120,
    )
    reading = ("--bootstrap-server", access.bootstrap, "--topic", topic, "--command-config", str(config))
    count = ("--from-beginning", "--max-messages", str(len(values)))
    done = run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *reading, *count)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def ours(access: Access, topic: str, values: Sequence[str], folder: Path) -> list[str]:
    options: dict[str, Any] = {**access.python, **access.pem}
    with KafkaProducer(**options) as producer:
        for value in values:
            producer.send(topic, value.encode())
        producer.flush(TIMEOUT)
    reading: dict[str, Any] = {"group_id": topic, "auto_offset_reset": "earliest", "consumer_timeout_ms": 30_000}
    with KafkaConsumer(topic, **options, **reading) as consumer:
        return [record.value.decode() for _, record in zip(values, consumer, strict=False)]


COPIES: tuple[Copy, ...] = (kcat, confluent_kafka, kafka_python, aiokafka, java, ours)
