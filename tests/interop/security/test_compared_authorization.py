"""Requests about groups and transactions need the same ACLs as with Apache Kafka, and fail with the same errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from scripts import apache_kafka
from tests.interop import kafka_jars
from tests.interop.eventually import eventually
from tests.interop.kafka_jars import server
from tests.unit.broker.authorization import AUTHORIZATION_CODES, codes
from tests.unit.broker.group_authorization import CODES, ROWS

from ottla import ACL, ACLFilter, KafkaAdminClient, NewTopic, TopicPartition
from ottla.client.core.handshake import negotiate
from ottla.config.client import ClientConfig
from ottla.net.client.channel import Channel
from ottla.net.client.sasl_login import Login
from ottla.net.ports import free_port
from ottla.protocol.message import Request, Struct
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest

pytestmark = pytest.mark.interop

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
SECONDS = 30.0
NOT_COMPARED = {
    "OffsetCommit of the store": "Kafka on KRaft rejects it",
    "OffsetFetch of the store": "Kafka on KRaft rejects it",
    "DescribeShareGroupOffsets": "Kafka checks whether the group exists last, and we before the topics",
}
"""Rows that are not compared, and why."""


class GuardedNode(NamedTuple):
    """A node with a listener for super users on the first port, and a SASL listener for alice on the third."""

    version: str
    port: int
    admin: KafkaAdminClient
    topic_id: UUID


@pytest.fixture(scope="module", params=["3.9.2", "4.3.1"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedNode]:
    version: str = request.param
    if reason := apache_kafka.missing(version):
        pytest.skip(reason)
    folder, port = tmp_path_factory.mktemp("kafka"), free_port(in_a_row=3)
    command = kafka_jars.prepare_node(folder, port, version)
    with (folder / "server.properties").open("a") as properties:
        properties.write(
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1},"
            f"SASL_PLAINTEXT://127.0.0.1:{port + 2}\n"
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{port + 2}\n"
            "listener.security.protocol.map="
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT\n"
            "sasl.enabled.mechanisms=PLAIN\n"
            f"listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN}\n"
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
            "super.users=User:ANONYMOUS\n"
            "transaction.two.phase.commit.enable=true\n"
        )
    with (
        server(command, port, folder / "out.txt", kill=True),
        KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}") as admin,
    ):
        admin.create_topics([NewTopic(name, 1, 1) for name in ("t", "s")])
        admin.alter_consumer_group_offsets("known", {TopicPartition("t", 0): 1})
        asyncio.run(send_request(port, None, FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4))
        yield GuardedNode(version, port, admin, admin.describe_topics(["t"])["t"].topic_id)


def set_acls(admin: KafkaAdminClient, rules: Iterable[ACL]) -> None:
    """Replace all ACLs with these."""
    expected = set(rules)
    existing = set(admin.describe_acls())
    admin.delete_acls(list(existing - expected))
    admin.create_acls(expected - existing)
    eventually(lambda: set(admin.describe_acls(ACLFilter())) == expected, SECONDS)


async def send_request(port: int, login: Login | None, request: Request[Any], version: int) -> Any:
    """Return the response, or None if the broker does not support this version."""
    channel = Channel(asyncio.get_running_loop(), "127.0.0.1", port, client_id="me")
    await channel.connect()
    try:
        connection = await negotiate(channel, ClientConfig({"bootstrap.servers": f"127.0.0.1:{port}"}), login)
        low, high = connection.versions.get(request.API_KEY, (0, -1))
        return await channel.send(request, version, SECONDS) if low <= version <= high else None
    finally:
        channel.close()


def send_as_alice(node: GuardedNode, request: Request[Any], version: int) -> Any:
    return asyncio.run(send_request(node.port + 2, Login("PLAIN", "alice", "secret"), request, version))


def renamed(value: Any, names: dict[str, str]) -> Any:
    """Replace names of groups and transactional ids in a request, so that rows do not affect each other."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [renamed(item, names) for item in value]
    if isinstance(value, Struct):
        for field in type(value).FIELDS:
            setattr(value, field.name, renamed(getattr(value, field.name), names))
    return value


@pytest.mark.parametrize("name", [name for name in ROWS if name not in NOT_COMPARED])
def test_request_needs_the_acls_and_gets_the_errors_of_kafka(name: str, node: GuardedNode) -> None:
    if node.version == "3.9.2" and name == "InitProducerId of prepared transactions":
        pytest.skip("Kafka 3.9 has no such operation")
    row, number = ROWS[name], list(ROWS).index(name)
    names = {"g": f"g-{number}", "tx": f"tx-{number}"}
    needs = [
        rule._replace(
            resource_pattern=rule.resource_pattern._replace(
                resource_name=renamed(rule.resource_pattern.resource_name, names)
            )
        )
        for rule in row.needs
    ]
    for missing in needs:
        set_acls(node.admin, (rule for rule in needs if rule is not missing))
        response = send_as_alice(node, renamed(row.request(node.topic_id), names), row.version)
        if response is None:
            pytest.skip("the broker does not support this version")
        assert codes(response) == {CODES[missing.resource_pattern.resource_type]}, response
    set_acls(node.admin, needs)
    response = send_as_alice(node, renamed(row.request(node.topic_id), names), row.version)
    assert not codes(response) & AUTHORIZATION_CODES, response
