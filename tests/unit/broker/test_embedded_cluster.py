"""Several brokers in this process: `ottla.Broker(brokers=3)` and the fixture `ottla_cluster`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla import (
    Broker,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    KafkaShareConsumer,
    NewTopic,
)
from ottla.errors import ConfigurationError, IllegalStateError, StartupError

FROM_START: dict[str, Any] = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 30_000}


def test_cluster_replicates_and_fails_over(ottla_cluster: Broker) -> None:
    servers = ottla_cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("visits", 3, 3)])
        leader = admin.describe_topics(["visits"])["visits"].partitions[0].leader
        with KafkaProducer(bootstrap_servers=servers, acks="all") as producer:
            producer.send("visits", b"1", partition=0).get(30)
            ottla_cluster.stop_broker(leader)
            producer.send("visits", b"2", partition=0).get(30)
        assert admin.describe_topics(["visits"])["visits"].partitions[0].leader != leader
    assert len(ottla_cluster.bootstrap_servers.split(",")) == 2
    ottla_cluster.start_broker(leader)
    assert ottla_cluster.bootstrap_servers == servers
    with KafkaConsumer("visits", bootstrap_servers=servers, group_id="counters", **FROM_START) as consumer:
        assert [next(consumer).value for _ in range(2)] == [b"1", b"2"]


def test_data_directory_of_several_brokers_is_continued(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path, brokers=2) as cluster:
        assert cluster.data_dir == tmp_path
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send("visits", b"1").get(30)
    assert {path.name for path in tmp_path.iterdir()} == {"broker-0", "broker-1", "metadata"}
    with (
        Broker(data_dir=tmp_path, brokers=2) as cluster,
        KafkaConsumer("visits", bootstrap_servers=cluster.bootstrap_servers, **FROM_START) as consumer,
    ):
        assert next(consumer).value == b"1"


def test_unknown_or_stopped_broker_is_a_configuration_error(ottla_cluster: Broker) -> None:
    with pytest.raises(ConfigurationError, match=r"broker 7 does not run; \[0, 1, 2\] do"):
        ottla_cluster.stop_broker(7)
    with pytest.raises(ConfigurationError, match="broker 7 does not exist"):
        ottla_cluster.start_broker(7)
    with pytest.raises(ConfigurationError, match="broker 1 runs already"):
        ottla_cluster.start_broker(1)


def test_broker_that_cannot_start_stops_the_others(tmp_path: Path) -> None:
    (tmp_path / "broker-1").touch()
    cluster = Broker(data_dir=tmp_path, brokers=2)
    with pytest.raises(StartupError, match="broker-1 is not a directory"):
        cluster.start()
    with pytest.raises(IllegalStateError):
        _ = cluster.bootstrap_servers
    (tmp_path / "broker-1").unlink()
    with cluster:
        assert cluster.bootstrap_servers.count(":") == 2


def test_number_of_brokers_is_at_least_one() -> None:
    with pytest.raises(ConfigurationError, match="brokers: 0"):
        Broker(brokers=0)


def test_share_group_continues_after_the_leader_and_share_coordinators_stop(ottla_cluster: Broker) -> None:
    servers = ottla_cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("jobs", 3, 3)])
        admin.alter_configs({ConfigResource(ConfigResourceType.GROUP, "g"): {"share.auto.offset.reset": "earliest"}})
        leader = admin.describe_topics(["jobs"])["jobs"].partitions[0].leader
    with (
        KafkaProducer(bootstrap_servers=servers, acks="all") as producer,
        KafkaShareConsumer("jobs", bootstrap_servers=servers, group_id="g") as consumer,
    ):
        seen: list[bytes | None] = []
        for stopped, values in ((False, range(6)), (True, range(6, 12))):
            if stopped:
                consumer.commit()
                ottla_cluster.stop_broker(leader)
            for number in values:
                producer.send("jobs", b"%d" % number, partition=number % 3).get(30)
            while len(set(seen)) <= values[-1]:
                seen += [record.value for records in consumer.poll(1000).values() for record in records]
        assert sorted(int(value or b"") for value in seen) == list(range(12)), (
            "accepted records are not delivered again"
        )


def test_topics_of_one_request_have_different_first_leaders(ottla_cluster: Broker) -> None:
    with KafkaAdminClient(bootstrap_servers=ottla_cluster.bootstrap_servers) as admin:
        names = [f"t{number}" for number in range(6)]
        admin.create_topics([NewTopic(name, 1, 1) for name in names])
        leaders = [admin.describe_topics(names)[name].partitions[0].leader for name in names]
    assert sorted(leaders) == [0, 0, 1, 1, 2, 2]
