"""`ottla leader-election` with three brokers: the preferred replica becomes the leader."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
pytest.importorskip("kazoo")

from tests.chaos.cluster import Cluster
from tests.chaos.health import Health
from tests.chaos.peers import PEERS
from tests.interop.eventually import eventually as until_found
from tests.interop.kafka_jars import run_tool

from ottla import KafkaAdminClient, NewTopic, TopicPartition
from ottla.cli.main import main

pytestmark = [pytest.mark.interop, pytest.mark.slow]

eventually = partial(until_found, seconds=60.0)
TOPIC = "visits"


def test_preferred_leader_election_prints_the_output_of_kafka_leader_election(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(tmp_path, PEERS["ottla"]) as cluster:
        Health(cluster).wait_for_brokers()
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
            first, second, third = sorted(node.id for node in admin.describe_cluster().nodes)
            admin.create_topics([NewTopic(TOPIC, replica_assignments={0: [first, second, third]})])
            eventually(lambda: leader(admin) == first)
            # With a new order of the same replicas another one is preferred, but the leader does not change.
            admin.alter_partition_reassignments({TopicPartition(TOPIC, 0): [second, first, third]})
            eventually(lambda: not admin.list_partition_reassignments())
            assert leader(admin) == first
            arguments = ("--bootstrap-server", cluster.bootstrap, "--election-type", "PREFERRED")
            assert main(["leader-election", *arguments, "--all-topic-partitions"]) == 0
            output = capsys.readouterr().out
            assert output == f"Successfully completed leader election (PREFERRED) for partitions {TOPIC}-0\n"
            eventually(lambda: leader(admin) == second)
        one = ("--topic", TOPIC, "--partition", "0")
        theirs = run_tool("org.apache.kafka.tools.LeaderElectionCommand", *arguments, *one)
        assert main(["leader-election", *arguments, *one]) == theirs.returncode == 0
        assert capsys.readouterr().out == theirs.stdout


def leader(admin: KafkaAdminClient) -> int | None:
    return admin.describe_topics([TOPIC])[TOPIC].partitions[0].leader
