"""Third-party clients authenticate to our broker with OAUTHBEARER: with signed and with unsecured tokens."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from scripts import apache_kafka
from tests.interop.kafka_jars import run_tool
from tests.interop.python_clients import TIMEOUT, module_missing

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic
from ottla.broker.embedded import Broker

pytestmark = pytest.mark.interop

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
OWN = f'{MODULE} unsecuredLoginStringClaim_sub="ann";'
VALUES = [b"%d" % i for i in range(100)]
LIFE_SECONDS = 3


class Signed:
    """A broker that accepts signed tokens on one listener and unsecured ones on the other, and the tokens' issuer."""

    def __init__(self, folder: Path) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
        keys = folder / "jwks.json"
        keys.write_text(json.dumps({"keys": [{**public, "kid": "k"}]}))
        line = "sasl.jaas.config"
        self.broker = Broker(
            {
                "listeners": "SIGNED://localhost:0,OPEN://localhost:0",
                "listener.security.protocol.map": "SIGNED:SASL_PLAINTEXT,OPEN:SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "listener.name.signed.sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
                "listener.name.signed.sasl.oauthbearer.expected.audience": "kafka",
                f"listener.name.open.oauthbearer.{line}": f"{MODULE};",
            }
        )

    def address(self, listener: str) -> str:
        assert self.broker._node is not None
        return next(f"localhost:{e.port}" for e in self.broker._node.endpoints if e.name == listener)

    def token(self) -> str:
        claims = {"sub": "ann", "aud": "kafka", "exp": int(time.time()) + LIFE_SECONDS}
        return jwt.encode(claims, self._key, "RS256", headers={"kid": "k"})


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Signed]:
    made = Signed(tmp_path_factory.mktemp("keys"))
    with made.broker:
        yield made


def ours(signed: Signed) -> dict[str, Any]:
    options = {"bootstrap_servers": signed.address("SIGNED"), "security_protocol": "SASL_PLAINTEXT"}
    return {**options, "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": signed.token}


@pytest.fixture
def topic(signed: Signed) -> str:
    name = uuid.uuid4().hex
    with KafkaAdminClient(**ours(signed)) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
    return name


def read(signed: Signed, topic: str) -> list[bytes]:
    with KafkaConsumer(topic, **ours(signed), auto_offset_reset="earliest") as consumer:
        return [next(consumer).value for _ in VALUES]


def test_librdkafka_authenticates_with_tokens_of_its_callback(signed: Signed, topic: str) -> None:
    if reason := module_missing("confluent_kafka"):
        pytest.skip(reason)
    from confluent_kafka import Consumer, Producer

    tokens = []

    def refresh_token(_: str) -> tuple[str, float]:
        tokens.append(signed.token())
        return tokens[-1], time.time() + LIFE_SECONDS

    options: dict[str, Any] = {"bootstrap.servers": signed.address("SIGNED"), "security.protocol": "SASL_PLAINTEXT"}
    options |= {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": refresh_token}
    producer = Producer(options)
    # longer than the lifetime of a token: the client has to re-authenticate with a new one
    end = time.monotonic() + LIFE_SECONDS + 1
    for value in VALUES:
        producer.produce(topic, value)
        producer.flush(TIMEOUT)
    while time.monotonic() < end:
        producer.poll(0.1)
    producer.produce(topic, b"last")
    assert producer.flush(TIMEOUT) == 0
    assert len(tokens) > 1
    consumer = Consumer({**options, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    records = [message.value() for message in consumer.consume(len(VALUES) + 1, TIMEOUT)]
    consumer.close()
    assert records == [*VALUES, b"last"]


def test_kafka_python_authenticates_with_tokens_of_its_provider(signed: Signed, topic: str) -> None:
    if reason := module_missing("kafka"):
        pytest.skip(reason)
    from kafka import KafkaProducer as Producer
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return signed.token()

    producer = Producer(**{**ours(signed), "sasl_oauth_token_provider": Provider()})
    for value in VALUES:
        producer.send(topic, value)
    producer.flush(TIMEOUT)
    producer.close()
    assert read(signed, topic) == VALUES
    with KafkaProducer(**{**ours(signed), "sasl_oauth_token_provider": Provider()}) as mine:
        mine.send(topic, b"v").get(TIMEOUT)


def test_aiokafka_authenticates_with_tokens_of_its_provider(signed: Signed, topic: str) -> None:
    if reason := module_missing("aiokafka"):
        pytest.skip(reason)
    from aiokafka import AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return signed.token()

    async def send() -> None:
        async with AIOKafkaProducer(**{**ours(signed), "sasl_oauth_token_provider": Provider()}) as producer:
            for value in VALUES:
                await producer.send_and_wait(topic, value)

    asyncio.run(asyncio.wait_for(send(), TIMEOUT))
    assert read(signed, topic) == VALUES
    with KafkaProducer(**{**ours(signed), "sasl_oauth_token_provider": Provider()}) as mine:
        mine.send(topic, b"v").get(TIMEOUT)


def test_java_tools_authenticate_with_unsecured_tokens(signed: Signed, topic: str, tmp_path: Path) -> None:
    if reason := apache_kafka.missing():
        pytest.skip(f"Apache Kafka's tools: {reason}")
    config = tmp_path / "client.properties"
    properties = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER", f"sasl.jaas.config={OWN}")
    config.write_text("\n".join(properties))
    how = ("--bootstrap-server", signed.address("OPEN"), "--topic", topic, "--command-config", str(config))
    subprocess.run(
        apache_kafka.java("org.apache.kafka.tools.ConsoleProducer", *how),
        input=b"\n".join(VALUES),
        check=True,
        capture_output=True,
        timeout=120,
    )
    done = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", *how, "--from-beginning", "--max-messages", str(len(VALUES))
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.encode().split() == VALUES
    signed_only = ("--bootstrap-server", signed.address("SIGNED"), "--command-config", str(config))
    refused = run_tool("org.apache.kafka.tools.TopicCommand", *signed_only, "--list")
    assert refused.returncode != 0
    assert "invalid_token" in refused.stdout + refused.stderr
