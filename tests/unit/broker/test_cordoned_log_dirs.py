"""Cordoned log directories and brokers (KIP-1066): they get no new replicas."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.eventually import eventually

from ottla import Broker, ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic, TopicPartition
from ottla.client.admin.log_dirs import TopicPartitionReplica
from ottla.config.broker.broker_config import BrokerConfig
from ottla.errors import (
    ConfigurationError,
    InvalidConfigError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
)


def cordon(admin: KafkaAdminClient, broker: int | str, *paths: str) -> None:
    resource = ConfigResource(ConfigResourceType.BROKER, str(broker))
    admin.incremental_alter_configs({resource: {"cordoned.log.dirs": ",".join(paths)}})


def fits(admin: KafkaAdminClient) -> bool:
    """Return whether a topic with two replicas could be created."""
    try:
        admin.create_topics([NewTopic("probe", 1, 2)], validate_only=True)
    except InvalidReplicationFactorError:
        return False
    return True


def test_cordoned_directory_gets_no_new_replicas(tmp_path: Path) -> None:
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    with (
        Broker({"log.dirs": f"{a},{b}", "cordoned.log.dirs": f"{a}/"}) as broker,
        KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        admin.create_topics([NewTopic("t", 3, 1)])
        dirs = admin.describe_log_dirs()[0]
        assert {path: (len(d.replicas), d.is_cordoned) for path, d in dirs.items()} == {a: (0, True), b: (3, False)}
        replica = TopicPartitionReplica("t", 0, 0)
        with pytest.raises(InvalidReplicaAssignmentError, match="replica assignment is not valid"):
            admin.alter_replica_log_dirs({replica: a})
        with pytest.raises(InvalidConfigError, match=r"cordoned.log.dirs: /missing is not in log.dirs"):
            cordon(admin, 0, "/missing")
        with pytest.raises(InvalidRequestError, match="at default cluster level"):
            cordon(admin, "", "*")
        cordon(admin, 0, a, b)
        with pytest.raises(InvalidReplicationFactorError, match="the number of available brokers, 0"):
            admin.create_topics([NewTopic("u", 1, 1)])
        assert all(d.is_cordoned for d in admin.describe_log_dirs()[0].values())
        cordon(admin, 0, b)
        admin.create_topics([NewTopic("u", 1, 1)])
        assert TopicPartition("u", 0) in admin.describe_log_dirs()[0][a].replicas
    with pytest.raises(ConfigurationError, match="cordoned.log.dirs: /c is not in log.dirs"):
        BrokerConfig({"log.dirs": "/a,/b", "cordoned.log.dirs": "/b,/c"})


def test_cordoned_broker_gets_no_new_replicas() -> None:
    with (
        Broker(brokers=2) as cluster,
        KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        admin.create_topics([NewTopic("old", 1, replica_assignments={0: [1]})])
        cordon(admin, 1, "*")
        eventually(lambda: not fits(admin), 20)  # the controller reads the config after a change notification
        admin.create_topics([NewTopic("new", 4, 1)])
        new = admin.describe_topics(["new"])["new"]
        assert [p.replicas for p in new.partitions] == [(0,)] * 4
        admin.create_partitions({"old": NewPartitions(3)})
        old = admin.describe_topics(["old"])["old"]
        assert [p.replicas for p in old.partitions] == [(1,), (0,), (0,)]
        with pytest.raises(InvalidReplicationFactorError, match="larger than the number of available brokers, 1"):
            admin.create_topics([NewTopic("wide", 1, 2)])
        with pytest.raises(InvalidReplicaAssignmentError, match=r"log directories are all cordoned: \[1\]"):
            admin.create_topics([NewTopic("chosen", 1, replica_assignments={0: [0, 1]})])
        with pytest.raises(InvalidReplicaAssignmentError, match="cordoned"):
            admin.create_partitions({"old": NewPartitions(4, [[1]])})
        with pytest.raises(InvalidReplicaAssignmentError, match="cordoned"):
            admin.alter_partition_reassignments({TopicPartition("new", 0): [0, 1]})
        admin.alter_partition_reassignments({TopicPartition("old", 0): [1, 0]})  # a replica that is there may stay
        cordon(admin, 1)
        eventually(lambda: fits(admin), 20)
