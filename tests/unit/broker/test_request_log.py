"""The request log, and the log of denied operations."""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Iterator

import pytest

from ottla import Broker, KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic
from ottla.errors import TopicAuthorizationFailedError

DENYING = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:admin"}


@pytest.fixture
def request_log() -> Iterator[logging.Logger]:
    log = logging.getLogger("ottla.request")
    yield log
    log.setLevel(logging.NOTSET)


def test_request_log_has_a_line_per_request_while_its_own_level_is_debug(
    caplog: pytest.LogCaptureFixture, request_log: logging.Logger
) -> None:
    caplog.set_level(logging.DEBUG, "ottla")
    with Broker() as broker, KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers, client_id="a") as admin:
        admin.create_topics([NewTopic("t", 1, 1)])
        assert "ottla.request" not in {record.name for record in caplog.records}
        request_log.setLevel(logging.DEBUG)
        host, _, port = broker.bootstrap_servers.rpartition(":")
        admin.delete_topics(["t"])
        with socket.create_connection((host, int(port))) as client:
            client.sendall(struct.pack(">ihhihb", 11, 18, 99, 7, -1, 0))
            assert client.recv(4)
        request_log.setLevel(logging.NOTSET)
    lines = [record.getMessage() for record in caplog.records if record.name == "ottla.request"]
    assert sum(line.startswith("ApiVersions version=99 ") for line in lines) == 1, "an unsupported version"
    (line,) = [line for line in lines if line.startswith("DeleteTopics version=")]
    for part in (" client_id=a principal=User:ANONYMOUS peer=127.0.0.1:", " listener=PLAINTEXT request_bytes="):
        assert part in line
    assert " response_bytes=" in line
    assert float(line.rpartition("time_ms=")[2]) > 0


def test_denied_operation_is_logged_with_principal_host_operation_and_resource(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "ottla.authorizer")
    with Broker(DENYING) as broker, KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        for _ in range(20):
            with pytest.raises(
                TopicAuthorizationFailedError,
                match=r"User:ANONYMOUS is not authorized: CREATE on TOPIC is required .* --topic t\)$",
            ):
                admin.create_topics([NewTopic("t", 1, 1)])
        connection = f"--bootstrap-server {broker.bootstrap_servers}"
    lines = [record.getMessage() for record in caplog.records if record.name == "ottla.authorizer"]
    command = f"ottla acls {connection} --add --allow-principal User:ANONYMOUS --operation Create --topic t"
    assert set(lines) == {f"Denied CREATE on TOPIC t to User:ANONYMOUS from 127.0.0.1; to allow it: {command}"}
    assert len(lines) == 5, "the same denial is logged five times in 10 seconds"


def test_allowed_operation_is_logged_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "ottla.authorizer")
    allowing = {**DENYING, "super.users": "User:ANONYMOUS"}
    with Broker(allowing) as broker, KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", 1, 1)])
    messages = [record.getMessage() for record in caplog.records if record.name == "ottla.authorizer"]
    assert "Allowed CREATE on CLUSTER kafka-cluster to User:ANONYMOUS from 127.0.0.1" in messages


def test_denied_producer_and_consumer_name_the_command_that_would_allow_them() -> None:
    with Broker(DENYING) as broker:
        servers = broker.bootstrap_servers
        with (
            KafkaProducer(bootstrap_servers=servers) as producer,
            pytest.raises(TopicAuthorizationFailedError, match="'t': .* HOST:PORT .*--operation Write --topic t "),
        ):
            producer.send("t", b"1").get(30)
        with (
            KafkaConsumer("t", bootstrap_servers=servers, group_id="g") as consumer,
            pytest.raises(TopicAuthorizationFailedError, match="'t': .* HOST:PORT .*--operation Read --topic t "),
        ):
            consumer.poll(timeout_ms=30_000)
