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
    TopicPartition,
)
from ottla.clock import ShiftedClock
from ottla.errors import ConfigurationError, IllegalStateError, StartupError, UnknownTopicOrPartitionError

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


def test_data_directory_of_several_brokers_is_reused(tmp_path: Path) -> None:
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


def test_leader_can_be_moved_while_a_producer_sends(ottla_cluster: Broker) -> None:
    servers = ottla_cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers) as admin, KafkaProducer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic("visits", 1, 3)])
        producer.send("visits", b"1").get(30)
        before = ottla_cluster.leader("visits")
        after = ottla_cluster.move_leader("visits")
        assert ottla_cluster.leader("visits") == after != before
        assert producer.send("visits", b"2").get(30).offset == 1
        assert ottla_cluster.move_leader("visits", to=before) == before
        with pytest.raises(ConfigurationError, match=r"to: broker 7 cannot lead visits-0; its replicas in sync are \["):
            ottla_cluster.move_leader("visits", to=7)
        with pytest.raises(UnknownTopicOrPartitionError, match="partition 1 of topic 'visits' does not exist"):
            ottla_cluster.leader("visits", 1)


def test_leader_with_the_only_replica_cannot_be_moved(ottla_cluster: Broker) -> None:
    with KafkaAdminClient(bootstrap_servers=ottla_cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("visits", 1, 1)])
    with pytest.raises(ConfigurationError, match="create the topic with more replicas"):
        ottla_cluster.move_leader("visits")


def test_killed_broker_is_replaced_as_leader_and_can_be_started_again(ottla_cluster: Broker) -> None:
    servers = ottla_cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers) as admin, KafkaProducer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic("visits", 1, 3)])
        producer.send("visits", b"1").get(30)
        killed = ottla_cluster.leader("visits")
        ottla_cluster.kill_broker(killed)
        assert producer.send("visits", b"2").get(30).offset == 1
        assert ottla_cluster.leader("visits") != killed
        ottla_cluster.start_broker(killed)
        ottla_cluster.restart_broker(killed)
    assert ottla_cluster.bootstrap_servers == servers


def test_advanced_clock_lets_retention_delete_old_records() -> None:
    with Broker(clock=ShiftedClock()) as broker, KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        configs = {"segment.ms": "1000", "retention.ms": "60000"}
        admin.create_topics([NewTopic("visits", 1, 1, topic_configs=configs)])
        with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("visits", b"1").get(30)
            broker.advance_clock(2)
            producer.send("visits", b"2").get(30)
            broker.advance_clock(3600)
        visits = TopicPartition("visits", 0)
        with KafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
            assert consumer.beginning_offsets([visits]) == {visits: 2}


def test_advance_clock_without_a_shifted_clock_is_a_configuration_error() -> None:
    with Broker() as broker, pytest.raises(ConfigurationError, match=r"clock: .* use Broker\(clock=ShiftedClock\(\)\)"):
        broker.advance_clock(1)


@pytest.mark.parametrize(("options", "is_monitored"), [({}, False), ({"ottla.event.loop.stall.ms": 250}, True)])
def test_broker_in_a_program_reports_stalls_of_its_event_loop_only_if_configured(
    options: dict[str, int], is_monitored: bool
) -> None:
    with Broker(options) as broker:
        (node,) = broker.nodes.values()
        assert node.monitored is not None
        assert (node.monitored.loop_monitor is not None) == is_monitored
