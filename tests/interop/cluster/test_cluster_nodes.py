"""The znodes of three brokers equal those of three of Apache Kafka 3.9, after each step of a cluster's life."""

from __future__ import annotations

import json
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
pytest.importorskip("kazoo")

from tests.chaos.cluster import Cluster
from tests.chaos.health import Health
from tests.chaos.peers import PEERS
from tests.chaos.tree import ZooKeeperTree
from tests.interop.eventually import eventually as until_found
from tests.interop.node_fields import comparable

from ottla import (
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    NewTopic,
    TopicPartition,
)
from ottla.cluster.store.store_export import read_tree

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SECONDS = 60.0
eventually = partial(until_found, seconds=SECONDS)
OF_ONE_RUN = {"topic_id", "id"}
"""Fields whose values differ from run to run."""
LEFT_OUT = ("/config/groups", "/config/client-metrics", "/feature", "/migration", "/cluster/secret")
"""Znodes for the migration to KRaft or of features that Kafka has with KRaft only, and the secret of our brokers."""
STOPPED = 3
"""A broker that is not the controller, which is the first broker with either peer."""
EPHEMERAL = ("/brokers/ids/1", "/brokers/ids/2", "/brokers/ids/3", "/controller")


def test_znodes_of_three_brokers_equal_those_of_apache_kafka(tmp_path: Path) -> None:
    reason = PEERS["kafka"].missing()
    if reason is not None:
        pytest.skip(reason)
    ours, theirs = (history(tmp_path / peer, peer) for peer in ("ottla", "kafka"))
    different = {
        (step, path): (ours[step].get(path), theirs[step].get(path))
        for step in theirs
        for path in ours[step].keys() | theirs[step].keys()
        if path not in ours[step] or path not in theirs[step] or ours[step][path] != theirs[step][path]
    }
    assert different == {}, json.dumps({" ".join(k): v for k, v in different.items()}, indent=1)


def history(directory: Path, peer: str) -> dict[str, dict[str, Any]]:
    """Return the znodes after each step."""
    directory.mkdir()
    with Cluster(directory, PEERS[peer]).started_in_turn() as cluster:
        tree = ZooKeeperTree(str(cluster.tree))
        # a broker is registered before the others have loaded it, and a topic can already be placed on it
        Health(cluster).wait_for_brokers()
        seen: dict[str, dict[str, Any]] = {}
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
            layout = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
            options = {"retention.ms": "1000", "min.insync.replicas": "2"}
            admin.create_topics([NewTopic("t", replica_assignments=layout, topic_configs=options)])
            admin.create_topics([NewTopic("gone", replica_assignments={0: [1, 2]})])
            admin.alter_configs([ConfigResource(ConfigResourceType.BROKER, "2", {"log.cleaner.threads": "2"})])
            admin.delete_topics(["gone"])
            eventually(lambda: "gone" not in tree._client.get_children("/brokers/topics"))
            seen["topics"] = nodes(cluster, tree)
            cluster.brokers[STOPPED].end(signal.SIGTERM)
            eventually(lambda: tree.missing()[:1] == [f"broker {STOPPED}"])
            seen["after a controlled shutdown"] = nodes(cluster, tree)
            cluster.brokers[STOPPED].start()
            eventually(lambda: not tree.missing())
            seen["after the restart"] = nodes(cluster, tree)
            admin.alter_partition_reassignments({TopicPartition("t", 0): [2, 3], TopicPartition("t", 1): [3, 1]})
            eventually(lambda: not admin.list_partition_reassignments())
            seen["moved"] = nodes(cluster, tree)
        tree.close()
    return seen


def nodes(cluster: Cluster, tree: ZooKeeperTree) -> dict[str, Any]:
    actual = {path: sorted_isr(comparable(value, OF_ONE_RUN)) for path, value in read_tree(str(cluster.tree)).items()}
    for path in EPHEMERAL:
        stat = tree._client.exists(path)
        actual[path] = None if stat is None else sorted(comparable(tree._client.get(path)[0], OF_ONE_RUN))
    return {path: value for path, value in actual.items() if not path.startswith(LEFT_OUT)}


def sorted_isr(fields: Any) -> Any:
    if isinstance(fields, dict) and "isr" in fields:
        fields["isr"] = sorted(fields["isr"])  # the order in which replicas rejoin depends on which one fetches first
    return fields
