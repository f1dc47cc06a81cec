"""Kafka Streams with `group.protocol=streams` (KIP-1071) on our broker, and our tool and admin client with Kafka's.

Several instances count words through a repartition topic and a store, while they join, leave and are killed, and while
the broker restarts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts import apache_kafka
from tests.interop import kafka_jars
from tests.interop.eventually import eventually
from tests.interop.java_clients import Record
from tests.interop.kafka_jars import kafka, run_tool
from tests.interop.streams_application import WordCount

from ottla import KafkaAdminClient, TopicPartition
from ottla.broker.embedded import Broker
from ottla.cli.main import main
from ottla.net.ports import free_port

pytestmark = [pytest.mark.interop, pytest.mark.slow]

QUICK = {
    "group.streams.min.session.timeout.ms": 1000,
    "group.streams.session.timeout.ms": 6000,
    "group.streams.min.heartbeat.interval.ms": 100,
    "group.streams.heartbeat.interval.ms": 500,
    "group.streams.initial.rebalance.delay.ms": 1000,
}
TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"


@pytest.mark.parametrize("version", ["4.3.1", "4.4.0"])
def test_streams_group_counts_words_once_through_kills_and_a_restart(
    tmp_path: Path, version: str, compatibility: Record
) -> None:
    port, checked = free_port(), []
    configs = {**QUICK, "group.streams.num.standby.replicas": 1}

    def broker() -> Broker:
        return Broker(configs, data_dir=tmp_path / "data", port=port)

    running = broker()
    running.start()
    try:
        with WordCount(running.bootstrap_servers, tmp_path, "words", version) as application:
            first, second = application.start(), application.start()
            application.send()
            assert application.counts() == (application.sent, 0)
            two = application.wait_stable(2)
            assert {len(m.assignment.active) > 0 for m in two.members} == {True}
            checked.append("two instances share the tasks")
            first.kill()
            first.wait()
            application.send()
            assert application.counts() == (application.sent, 0)
            application.wait_stable(1)
            checked.append("who stays takes over the tasks of a killed instance")
            application.start()
            group = application.wait_stable(2)
            standbys = sum(len(p) for m in group.members for p in m.assignment.standby.values())
            assert standbys == 4
            checked.append("each stateful task has a standby task")
            running.stop()
            running = broker()
            running.start()
            application.send()
            assert application.counts() == (application.sent, 0)
            assert application.wait_stable(2).group_epoch >= group.group_epoch
            checked.append("the group continues after a restart of the broker")
            application.stop(second)
            application.send()
            assert application.counts() == (application.sent, 0)
            application.wait_stable(1)
            checked.append("every word is counted once")
    finally:
        running.stop()
    compatibility("Kafka Streams", version, "group.protocol=streams", checked)


@pytest.fixture(scope="module", params=["ottla", "kafka"])
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of our broker, and of Apache Kafka's."""
    if request.param == "ottla":
        with Broker(QUICK) as broker:
            yield broker.bootstrap_servers
        return
    reason = apache_kafka.missing()
    if reason:
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("kafka")
    port = free_port(in_a_row=2)
    kafka_jars.prepare_node(directory, port, configs=QUICK)
    with kafka(directory, port) as running:
        yield running


def test_ottla_streams_groups_prints_the_output_of_kafkas_tool(
    servers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], compatibility: Record
) -> None:
    at = ("--bootstrap-server", servers)

    def compare(*arguments: str) -> None:
        theirs = run_tool(TOOL, *at, *arguments)
        assert theirs.returncode == 0, theirs.stdout + theirs.stderr
        assert main(["streams-groups", *at, *arguments]) == 0
        ours = capsys.readouterr().out
        # Kafka's tool sorts neither partitions nor members
        assert sorted(ours.splitlines()) == sorted(theirs.stdout.splitlines()), arguments

    with WordCount(servers, tmp_path, "words", apache_kafka.VERSION) as application:
        application.start()
        application.start()
        application.send()
        assert application.counts() == (application.sent, 0)
        application.wait_stable(2)
        group = ("--group", application.group)
        compare("--list")
        compare("--list", "--state")
        compare("--list", "--state", "Stable,NotReady")
        compare("--describe", *group)
        compare("--describe", *group, "--members")
        compare("--describe", *group, "--members", "--verbose")
        compare("--describe", *group, "--state")
        compare("--describe", "--all-groups", "--state", "--verbose")
        compare("--delete", *group)
        compare("--reset-offsets", *group, "--all-input-topics", "--to-latest", "--dry-run")
        compare("--delete-offsets", *group, "--input-topic", f"{application.topic}:0")
        application.stop_all()
    reset = ("--reset-offsets", *group, "--dry-run")
    compare("--describe", *group, "--offsets", "--verbose")
    compare("--describe", *group, "--state")
    compare(*reset, "--all-input-topics", "--to-latest")
    compare(*reset, "--input-topic", application.topic, "--shift-by", "-10")
    compare(*reset, "--input-topic", f"{application.topic}:0,1", "--to-offset", "3", "--export")
    unknown = (*reset, "--input-topic", "nowhere:0", "--to-earliest")
    assert run_tool(TOOL, *at, *unknown).returncode == main(["streams-groups", *at, *unknown]) == 1
    capsys.readouterr()
    compare("--delete", "--group", "missing")
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        run = main(
            ["streams-groups", *at, "--reset-offsets", *group, "--all-input-topics", "--to-earliest", "--execute"]
        )
        assert run == 0
        committed = admin.list_streams_group_offsets(application.group)
        assert {committed[TopicPartition(application.topic, n)].offset for n in range(4)} == {0}
        capsys.readouterr()
        assert main(["streams-groups", *at, "--delete", *group, "--delete-all-internal-topics"]) == 0
        ours = capsys.readouterr().out
        assert ours.startswith(f"Deletion of requested streams groups ('{application.group}') was successful.")
        internal = f"{application.group}-"  # Kafka's broker may list a topic for some time after its deletion
        eventually(lambda: not any(topic.startswith(internal) for topic in admin.list_topics()), 10)
    compatibility(
        "Kafka's tools",
        apache_kafka.VERSION,
        "streams groups",
        ["StreamsGroupCommand, compared with ottla streams-groups"],
    )
