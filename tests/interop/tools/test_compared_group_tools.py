"""Our tools for groups, client metrics, features and clusters print what Apache Kafka's print, on one broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.interop.kafka_jars import run_tool

from ottla import (
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    KafkaShareConsumer,
    NewTopic,
    TopicPartition,
)
from ottla.broker.embedded import Broker
from ottla.cli.main import main

pytestmark = [pytest.mark.interop, pytest.mark.slow]

CONSUMER_GROUPS = "consumer.group.ConsumerGroupCommand"
SHARE_GROUPS = "consumer.group.ShareGroupCommand"


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """Run a broker with a topic, a share group, a consumer group and a classic group with a static member."""
    with Broker({f"group.share.{bound}heartbeat.interval.ms": 200 for bound in ("", "min.")}) as broker:
        servers = broker.bootstrap_servers
        with KafkaAdminClient(bootstrap_servers=servers) as admin, KafkaProducer(bootstrap_servers=servers) as producer:
            admin.create_topics([NewTopic("t", 2, 1)])
            group = ConfigResource(ConfigResourceType.GROUP, "share")
            admin.alter_configs({group: {"share.auto.offset.reset": "earliest"}})
            for number in range(10):
                producer.send("t", b"x", partition=number % 2)
            admin.alter_consumer_group_offsets("empty", {TopicPartition("t", 0): 3})
        shared = KafkaShareConsumer("t", bootstrap_servers=servers, group_id="share", client_id="me")
        consumer = KafkaConsumer("t", bootstrap_servers=servers, group_id="consumers", group_protocol="consumer")
        classic = KafkaConsumer("t", bootstrap_servers=servers, group_id="classic", group_instance_id="first")
        with shared, consumer, classic:
            count = 0
            while count < 10:
                count += sum(map(len, shared.poll(timeout_ms=1000).values()))
            shared.commit()
            while not (consumer.assignment() and classic.assignment()):
                consumer.poll(timeout_ms=200)
                classic.poll(timeout_ms=200)
            consumer.commit()
            yield servers


@pytest.mark.parametrize(
    ("command", "kafkas", "arguments"),
    [
        ("share-groups", SHARE_GROUPS, ("--list", "--state")),
        ("share-groups", SHARE_GROUPS, ("--describe", "--group", "share")),
        ("share-groups", SHARE_GROUPS, ("--describe", "--group", "share", "--verbose")),
        ("share-groups", SHARE_GROUPS, ("--describe", "--group", "share", "--members")),
        ("share-groups", SHARE_GROUPS, ("--describe", "--group", "share", "--members", "--verbose")),
        ("share-groups", SHARE_GROUPS, ("--describe", "--all-groups", "--state", "--verbose")),
        ("consumer-groups", CONSUMER_GROUPS, ("--list",)),
        ("consumer-groups", CONSUMER_GROUPS, ("--list", "--state", "--type")),
        ("consumer-groups", CONSUMER_GROUPS, ("--describe", "--all-groups")),
        ("consumer-groups", CONSUMER_GROUPS, ("--describe", "--all-groups", "--offsets", "--verbose")),
        ("consumer-groups", CONSUMER_GROUPS, ("--describe", "--all-groups", "--members")),
        ("consumer-groups", CONSUMER_GROUPS, ("--describe", "--all-groups", "--members", "--verbose")),
        ("consumer-groups", CONSUMER_GROUPS, ("--describe", "--all-groups", "--state")),
        ("consumer-groups", CONSUMER_GROUPS, ("--describe", "--group", "consumers", "--state", "--verbose")),
        ("groups", "GroupsCommand", ("--list",)),
        ("groups", "GroupsCommand", ("--list", "--share")),
        ("client-metrics", "ClientMetricsCommand", ("--alter", "--name", "m", "--metrics", "a,b")),
        ("client-metrics", "ClientMetricsCommand", ("--describe",)),
        ("features", "FeatureCommand", ("describe",)),
        ("features", "FeatureCommand", ("version-mapping",)),
        ("features", "FeatureCommand", ("version-mapping", "--release-version", "4.1")),
        ("features", "FeatureCommand", ("version-mapping", "--release-version", "3.7-IV2")),
        (
            "features",
            "FeatureCommand",
            ("feature-dependencies", "--feature", "eligible.leader.replicas.version=1", "--feature", "group.version=1"),
        ),
        ("cluster", "ClusterTool", ("cluster-id",)),
        ("cluster", "ClusterTool", ("list-endpoints",)),
    ],
)
def test_ottla_tool_prints_the_output_of_kafkas_tool(
    servers: str, command: str, kafkas: str, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    connection = ("--bootstrap-server", servers)
    ordered = (*arguments, *connection) if command == "cluster" else (*connection, *arguments)
    theirs = run_tool(f"org.apache.kafka.tools.{kafkas}", *ordered)
    assert main([command, *ordered]) == theirs.returncode == 0
    ours = capsys.readouterr().out
    if "--list" in arguments and command != "share-groups":  # Kafka's tools do not sort their output
        assert sorted(ours.splitlines()) == sorted(theirs.stdout.splitlines())
    else:
        assert ours == theirs.stdout
