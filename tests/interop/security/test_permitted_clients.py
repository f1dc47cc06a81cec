"""Every client on a SASL listener with an authorizer: with just enough ACLs, or none."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.python_clients import TIMEOUT, module_missing
from tests.interop.secured import COPIES, Access, Copy

from ottla import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    Broker,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    NewTopic,
    ResourcePattern,
    ResourceType,
    TopicPartition,
    errors,
)

pytestmark = pytest.mark.interop

PASSWORD = "not-known"
LOGIN = f"org.apache.kafka.common.security.plain.PlainLoginModule required user_admin={PASSWORD} user_ann={PASSWORD};"
VALUES = [f"v{i}" for i in range(20)]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    options = {
        "listeners": "SASL_PLAINTEXT://localhost:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": LOGIN,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    with Broker(options) as running:
        yield running


def access(broker: Broker, user: str) -> Access:
    return Access(broker.bootstrap_servers, "SASL_PLAINTEXT", Path(), None, "PLAIN", user, PASSWORD)


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """A topic for which ann has no ACLs."""
    name = f"{request.node.name.partition('[')[0]}-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(**access(broker, "admin").python) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
    return name


def allow(
    broker: Broker,
    operation: ACLOperation,
    kind: ResourceType,
    name: str,
    pattern: ACLResourcePatternType = ACLResourcePatternType.LITERAL,
) -> None:
    rule = ACL("User:ann", "*", operation, ACLPermissionType.ALLOW, ResourcePattern(kind, name, pattern))
    with KafkaAdminClient(**access(broker, "admin").python) as admin:
        admin.create_acls([rule])


@pytest.mark.parametrize("copy", COPIES, ids=lambda copy: copy.__name__)
def test_client_needs_one_acl_to_produce_and_two_to_consume(
    copy: Copy, broker: Broker, topic: str, tmp_path: Path
) -> None:
    for operation, kind in (
        (ACLOperation.WRITE, ResourceType.TOPIC),
        (ACLOperation.READ, ResourceType.TOPIC),
        (ACLOperation.READ, ResourceType.GROUP),
    ):
        allow(broker, operation, kind, topic)
    allow(broker, ACLOperation.READ, ResourceType.GROUP, "console-consumer-", ACLResourcePatternType.PREFIXED)  # Java's
    assert copy(access(broker, "ann"), topic, VALUES, tmp_path) == VALUES


def test_librdkafka_gets_authorization_errors(broker: Broker, topic: str) -> None:
    if reason := module_missing("confluent_kafka"):
        pytest.skip(reason)
    from confluent_kafka import Consumer, KafkaError, Producer

    options = access(broker, "ann").librdkafka
    codes: list[int] = []
    producer = Producer(options)

    def on_delivery(error: Any, _: Any) -> None:
        codes.append(error.code())

    producer.produce(topic, b"v", on_delivery=on_delivery)
    assert producer.flush(TIMEOUT) == 0
    assert codes == [KafkaError.TOPIC_AUTHORIZATION_FAILED]

    allow(broker, ACLOperation.READ, ResourceType.GROUP, topic)
    consumer = Consumer({**options, "group.id": topic})
    consumer.subscribe([topic])
    message = consumer.poll(TIMEOUT)
    consumer.close()
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def poll_until_assigned(consumer: KafkaConsumer) -> None:
    """An error from before the ACL was added may be raised once more."""
    end = time.monotonic() + TIMEOUT
    while not consumer.assignment():
        assert time.monotonic() < end, "no partitions are assigned"
        with contextlib.suppress(errors.TopicAuthorizationFailedError):
            consumer.poll(timeout_ms=200)


def test_ottla_clients_get_authorization_errors(broker: Broker, topic: str) -> None:
    options = access(broker, "ann").python
    with KafkaProducer(**options) as producer:
        with pytest.raises(errors.TopicAuthorizationFailedError):
            producer.send(topic, b"v").get(TIMEOUT)
    with KafkaConsumer(topic, **options, group_id=topic) as consumer:
        for error in (errors.TopicAuthorizationFailedError, errors.GroupAuthorizationFailedError):
            with pytest.raises(error, match=topic):
                consumer.poll(timeout_ms=int(TIMEOUT * 1000))
        allow(broker, ACLOperation.READ, ResourceType.TOPIC, topic)
        allow(broker, ACLOperation.READ, ResourceType.GROUP, topic)
        poll_until_assigned(consumer)
    with KafkaConsumer(**options) as consumer:
        with pytest.raises(errors.TopicAuthorizationFailedError, match="nowhere"):
            consumer.end_offsets([TopicPartition("nowhere", 0)])
