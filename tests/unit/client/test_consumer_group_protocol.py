"""group.protocol=consumer (KIP-848): the consumer with an Ottla broker, and errors with a scripted one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from tests.unit.client.consuming import Listener, fill, poll_until, read
from tests.unit.client.scripted import DROP, ScriptedBroker

from ottla import (
    ConsumerRebalanceListener,
    GroupMembershipOperation,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    NewTopic,
    SubscriptionPattern,
    TopicPartition,
    aio,
)
from ottla.broker.embedded import Broker
from ottla.client.consumer.group.consumer_membership import MOVES, ConsumerMembership, State
from ottla.errors import (
    CommitFailedError,
    ConfigurationError,
    FencedInstanceIdError,
    InvalidRegularExpressionError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)
from ottla.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

pytestmark = pytest.mark.option("group.protocol")
QUICK = {
    "group.consumer.min.heartbeat.interval.ms": 20,
    "group.consumer.heartbeat.interval.ms": 50,
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
}
TP = TopicPartition("t", 0)
ID = UUID(int=77)


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with Broker(QUICK) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def topic(cluster: str, request: pytest.FixtureRequest) -> str:
    name = f"t{abs(hash(request.node.name)) % 10**9}"
    with KafkaAdminClient(bootstrap_servers=cluster) as admin:
        admin.create_topics([NewTopic(name, 4, 1)])
    return name


def member(address: str, *topics: str, **options: Any) -> KafkaConsumer:
    options = {
        "group_id": topics[0] if topics else "g",
        "group_protocol": "consumer",
        "auto_offset_reset": "earliest",
        "retry_backoff_ms": 10,
        "fetch_max_wait_ms": 20,
        **options,
    }
    return KafkaConsumer(*topics, bootstrap_servers=address, **options)


def poll_all(*members: KafkaConsumer, until: Callable[[], bool], seconds: float = 15) -> list[Any]:
    """Poll all members in turn, and return the records."""
    end = time.monotonic() + seconds
    result: list[Any] = []
    while not until():
        assert time.monotonic() < end, "the condition was not met in time"
        for one in members:
            result += [row for rows in one.poll(timeout_ms=10).values() for row in rows]
    return result


def send(address: str, topic: str, count: int) -> None:
    with KafkaProducer(bootstrap_servers=address) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % 4)


# With an Ottla broker


def test_members_share_the_partitions_and_read_each_record_once(cluster: str, topic: str) -> None:
    send(cluster, topic, 40)
    with member(cluster, topic) as first:
        seen = poll_all(first, until=lambda: len(first.assignment()) == 4)
        with member(cluster, topic) as second:
            seen += poll_all(first, second, until=lambda: len(first.assignment()) == len(second.assignment()) == 2)
            assert not first.assignment() & second.assignment()
            send(cluster, topic, 40)
            deadline = time.monotonic() + 15
            while len(seen) < 80 and time.monotonic() < deadline:
                seen += [r for c in (first, second) for rows in c.poll(timeout_ms=10).values() for r in rows]
        seen += poll_all(first, until=lambda: len(first.assignment()) == 4)
        assert len({(r.partition, r.offset) for r in seen}) == len(seen) == 80
    with member(cluster, topic) as third:
        poll_all(third, until=lambda: len(third.assignment()) == 4)
        assert third.committed(TopicPartition(topic, 0)) == 20


def test_partitions_are_revoked_before_another_member_gets_them(cluster: str, topic: str) -> None:
    listener = Listener()
    with member(cluster, group_id=topic) as first:
        first.subscribe([topic], listener=listener)
        poll_all(first, until=lambda: len(first.assignment()) == 4)
        with member(cluster, topic) as second:
            poll_all(first, second, until=lambda: len(second.assignment()) == 2)
            assert len(first.assignment()) == 2
        assert [(kind, len(p)) for kind, p, _ in listener.calls] == [("assigned", 4), ("revoked", 2), ("assigned", 0)]
        assert all(on_main_thread for _, _, on_main_thread in listener.calls), "called in the polling thread"
    assert listener.calls[-1][0] == "revoked"


def test_members_of_the_classic_and_consumer_protocol_share_a_group(cluster: str, topic: str) -> None:
    classic = KafkaConsumer(
        topic, bootstrap_servers=cluster, group_id=topic, heartbeat_interval_ms=50, auto_offset_reset="earliest"
    )
    with classic:
        seen = poll_all(classic, until=lambda: len(classic.assignment()) == 4)
        send(cluster, topic, 40)
        with member(cluster, topic) as new:
            seen += poll_all(classic, new, until=lambda: len(classic.assignment()) == len(new.assignment()) == 2)
            deadline = time.monotonic() + 15
            while len(seen) < 40 and time.monotonic() < deadline:
                seen += [r for c in (classic, new) for rows in c.poll(timeout_ms=10).values() for r in rows]
            assert len({(r.partition, r.offset) for r in seen}) == len(seen) == 40
        poll_all(classic, until=lambda: len(classic.assignment()) == 4)


def test_server_side_pattern_includes_topics_created_later(cluster: str) -> None:
    with KafkaAdminClient(bootstrap_servers=cluster) as admin:
        admin.create_topics([NewTopic("pat-a", 1, 1), NewTopic("other-pat-a", 1, 1)])
        with member(cluster, group_id="pattern") as c:
            c.subscribe(pattern=SubscriptionPattern("pat-[a-z]"))
            poll_all(c, until=lambda: c.assignment() == {TopicPartition("pat-a", 0)})
            admin.create_topics([NewTopic("pat-b", 1, 1)])
            poll_all(c, until=lambda: TopicPartition("pat-b", 0) in c.assignment())
            c.subscribe(["other-pat-a"])
            poll_all(c, until=lambda: c.assignment() == {TopicPartition("other-pat-a", 0)})


def test_poll_with_an_invalid_pattern_raises_invalid_regular_expression(cluster: str) -> None:
    with member(cluster, group_id="bad-pattern") as c:
        c.subscribe(pattern=SubscriptionPattern("(a"))
        with pytest.raises(InvalidRegularExpressionError):
            poll_until(c, lambda: False)


@pytest.mark.option("group.remote.assignor")
def test_group_remote_assignor_selects_the_server_side_assignor(cluster: str, topic: str) -> None:
    with member(cluster, topic, group_remote_assignor="range") as c:
        poll_all(c, until=lambda: len(c.assignment()) == 4)
        with KafkaAdminClient(bootstrap_servers=cluster) as admin:
            assert admin.describe_consumer_groups([topic])[topic].state.lower() == "stable"
    with member(cluster, topic, group_remote_assignor="missing-assignor") as c:
        with pytest.raises(UnsupportedAssignorError):
            poll_until(c, lambda: False)


@pytest.mark.option("group.instance.id")
def test_static_member_that_rejoins_gets_its_partitions_again(cluster: str, topic: str) -> None:
    with member(cluster, topic) as other:
        first = member(cluster, topic, group_instance_id="one")
        poll_all(first, other, until=lambda: len(first.assignment()) == len(other.assignment()) == 2)
        before = first.assignment()
        first.close()
        with member(cluster, topic, group_instance_id="one") as again:
            poll_all(again, other, until=lambda: len(again.assignment()) == 2)
            assert again.assignment() == before
            assert len(other.assignment()) == 2, "no other member moved"
            again.close(group_membership=GroupMembershipOperation.LEAVE_GROUP)
        poll_all(other, until=lambda: len(other.assignment()) == 4)


def test_second_member_with_the_same_instance_id_is_rejected(cluster: str, topic: str) -> None:
    from ottla.errors import UnreleasedInstanceIdError

    with member(cluster, topic, group_instance_id="one") as first:
        poll_all(first, until=lambda: len(first.assignment()) == 4)
        with member(cluster, topic, group_instance_id="one") as second, pytest.raises(UnreleasedInstanceIdError):
            poll_until(second, lambda: False)


@pytest.mark.option("max.poll.interval.ms")
def test_consumer_beyond_max_poll_interval_leaves_and_rejoins(cluster: str, topic: str) -> None:
    listener = Listener()
    with member(cluster, group_id=topic, max_poll_interval_ms=300, enable_auto_commit=False) as c:
        c.subscribe([topic], listener=listener)
        poll_all(c, until=lambda: len(c.assignment()) == 4)
        membership = c._core.membership
        assert isinstance(membership, ConsumerMembership)
        deadline = time.monotonic() + 10
        while membership.state is not State.STALE:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with pytest.raises(CommitFailedError):
            c.commit({TopicPartition(topic, 0): 0})
        poll_all(c, until=lambda: len(listener.calls) >= 3)
    assert [kind for kind, _, _ in listener.calls[:3]] == ["assigned", "lost", "assigned"]


def test_close_leaves_the_group_at_once(cluster: str, topic: str) -> None:
    with member(cluster, topic) as first:
        second = member(cluster, topic)
        poll_all(first, second, until=lambda: len(first.assignment()) == len(second.assignment()) == 2)
        second.close()
        begin = time.monotonic()
        poll_all(first, until=lambda: len(first.assignment()) == 4)
        assert time.monotonic() - begin < 5


def test_asyncio_consumer_joins_with_the_consumer_protocol(cluster: str, topic: str) -> None:
    send(cluster, topic, 8)

    async def run() -> list[bytes]:
        options: dict[str, Any] = {"group_protocol": "consumer", "auto_offset_reset": "earliest"}
        async with aio.KafkaConsumer(topic, bootstrap_servers=cluster, group_id=topic, **options) as consumer:
            return [(await anext(consumer)).value for _ in range(8)]

    assert sorted(asyncio.run(run())) == sorted(b"%d" % n for n in range(8))


# With a scripted broker


class Coordinator:
    """The heartbeat responses of a scripted broker: one member, one assignment."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.assigned = [0]
        self.epoch = 0
        self.interval = 20
        self.requests: list[ConsumerGroupHeartbeatRequest] = []
        self.sent_assignment: list[int] | None = None
        broker.topic_ids["t"] = ID
        broker.on(ConsumerGroupHeartbeatRequest, self.respond, times=10**6)

    def respond(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        self.requests.append(request)
        if request.member_epoch <= 0:
            self.epoch, self.sent_assignment = self.epoch + 1, None
        assignment = None
        if self.sent_assignment != self.assigned:
            self.sent_assignment = list(self.assigned)
            assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=ID, partitions=self.sent_assignment)])
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=request.member_epoch if request.member_epoch < 0 else self.epoch,
            heartbeat_interval_ms=self.interval,
            assignment=assignment,
        )

    def respond_next(self, handler: Callable[[Any], Any], times: int = 1) -> None:
        """Let a handler respond to the next heartbeats."""
        self.broker._scripts[ConsumerGroupHeartbeatRequest.NAME].insert(0, [handler, times])

    def fail(self, code: int, times: int = 1) -> None:
        """Respond to the next heartbeats with an error."""
        self.respond_next(lambda _: ConsumerGroupHeartbeatResponse(error_code=code), times)


@pytest.fixture
def coordinator(broker: ScriptedBroker) -> Coordinator:
    return Coordinator(broker)


def test_heartbeat_sends_fields_once_and_acknowledges_the_assignment(
    broker: ScriptedBroker, coordinator: Coordinator
) -> None:
    with member(broker.address, "t", client_rack="r1") as c:
        poll_until(c, lambda: c.assignment() == {TP} and len(coordinator.requests) >= 4)
    join, acknowledge, quiet = coordinator.requests[:3]
    assert (join.member_epoch, join.subscribed_topic_names, join.topic_partitions) == (0, ["t"], [])
    assert (join.rebalance_timeout_ms, join.rack_id) == (300_000, "r1")
    assert UUID(join.member_id), "the member generates its own id"
    assert acknowledge.topic_partitions == [TopicPartitions(topic_id=ID, partitions=[0])]
    assert (acknowledge.subscribed_topic_names, acknowledge.rebalance_timeout_ms, acknowledge.rack_id) == (
        None,
        -1,
        None,
    )
    assert (quiet.member_epoch, quiet.topic_partitions) == (1, None)
    assert coordinator.requests[-1].member_epoch == -1


@pytest.mark.parametrize("code", [110, 25])
def test_fenced_member_loses_its_partitions_and_rejoins_with_its_id(
    broker: ScriptedBroker, coordinator: Coordinator, code: int
) -> None:
    listener = Listener()
    with member(broker.address, group_id="g") as c:
        c.subscribe(["t"], listener=listener)
        poll_until(c, lambda: c.assignment() == {TP})
        coordinator.fail(code)
        poll_until(c, lambda: len(listener.calls) == 3)
    assert [kind for kind, _, _ in listener.calls[:3]] == ["assigned", "lost", "assigned"]
    joins = [r for r in coordinator.requests if r.member_epoch == 0]
    assert len({r.member_id for r in joins}) == 1
    assert joins[1].topic_partitions == []


def test_heartbeat_after_a_lost_connection_contains_all_fields(
    broker: ScriptedBroker, coordinator: Coordinator
) -> None:
    with member(broker.address, "t") as c:
        poll_until(c, lambda: c.assignment() == {TP} and len(coordinator.requests) >= 3)
        count = len(coordinator.requests)
        coordinator.respond_next(lambda _: DROP)
        poll_until(c, lambda: any(r.subscribed_topic_names for r in coordinator.requests[count:]))
        again = next(r for r in coordinator.requests[count:] if r.subscribed_topic_names)
        assert again.topic_partitions == [TopicPartitions(topic_id=ID, partitions=[0])]
        assert c.assignment() == {TP}


def test_offsets_are_committed_before_a_revocation_is_acknowledged(
    broker: ScriptedBroker, coordinator: Coordinator
) -> None:
    broker.add_topic("t", 2)
    fill(broker, 10)
    coordinator.assigned = [0, 1]
    with member(broker.address, "t", auto_commit_interval_ms=10**6) as c:
        read(c, 10)
        coordinator.assigned = [1]
        poll_until(c, lambda: c.assignment() == {TopicPartition("t", 1)})
        remaining = [TopicPartitions(topic_id=ID, partitions=[1])]
        poll_until(c, lambda: any(r.topic_partitions == remaining for r in coordinator.requests))
        commit = next(i for i, r in enumerate(broker.requests) if isinstance(r, OffsetCommitRequest))
        ack = next(
            i
            for i, r in enumerate(broker.requests)
            if isinstance(r, ConsumerGroupHeartbeatRequest) and r.topic_partitions == remaining
        )
        assert commit < ack
    assert broker.committed[("t", 0)] == (10, "")
    assert broker.requests_of(OffsetCommitRequest)[0].generation_id_or_member_epoch == 1


def test_commit_with_a_stale_member_epoch_is_retried_with_the_new_one(
    broker: ScriptedBroker, coordinator: Coordinator
) -> None:
    fill(broker, 10)

    def stale(request: OffsetCommitRequest) -> OffsetCommitResponse | None:
        if request.generation_id_or_member_epoch == 5:
            return None
        coordinator.epoch = 5
        part = OffsetCommitResponsePartition(partition_index=0, error_code=113)
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[part])])

    broker.on(OffsetCommitRequest, stale, times=10**6)
    with member(broker.address, "t", enable_auto_commit=False) as c:
        read(c, 10)
        c.commit()
    assert broker.committed[("t", 0)] == (10, "")
    assert broker.requests_of(OffsetCommitRequest)[-1].generation_id_or_member_epoch == 5


def test_fenced_instance_id_is_raised_by_every_poll(broker: ScriptedBroker, coordinator: Coordinator) -> None:
    with member(broker.address, "t", group_instance_id="me") as c:
        poll_until(c, lambda: c.assignment() == {TP})
        coordinator.fail(82, times=10**6)
        with pytest.raises(FencedInstanceIdError, match="me"):
            poll_until(c, lambda: False)
        with pytest.raises(FencedInstanceIdError, match="me"):
            c.poll()


def test_static_member_leaves_with_member_epoch_minus_2(broker: ScriptedBroker, coordinator: Coordinator) -> None:
    with member(broker.address, "t", group_instance_id="me") as c:
        poll_until(c, lambda: c.assignment() == {TP})
    assert coordinator.requests[-1].member_epoch == -2


def test_dynamic_member_may_remain_in_the_group(broker: ScriptedBroker, coordinator: Coordinator) -> None:
    c = member(broker.address, "t")
    poll_until(c, lambda: c.assignment() == {TP})
    c.close(group_membership=GroupMembershipOperation.REMAIN_IN_GROUP)
    assert all(r.member_epoch >= 0 for r in coordinator.requests)


def test_heartbeats_are_sent_between_polls(broker: ScriptedBroker, coordinator: Coordinator) -> None:
    with member(broker.address, "t") as c:
        poll_until(c, lambda: c.assignment() == {TP})
        count = len(coordinator.requests)
        broker.wait_for(lambda: len(coordinator.requests) >= count + 5)


def test_assigned_topic_id_missing_in_metadata_is_requested(broker: ScriptedBroker, coordinator: Coordinator) -> None:
    response = broker._metadata(MetadataRequest())
    assert isinstance(response, MetadataResponse)
    broker.on(MetadataRequest, lambda _: MetadataResponse(brokers=response.brokers), times=2)
    with member(broker.address, "t") as c:
        poll_until(c, lambda: c.assignment() == {TP})


def test_cluster_without_the_protocol_raises_unsupported_version() -> None:
    with ScriptedBroker(max_versions={"ConsumerGroupHeartbeat": -1}) as broker:
        broker.add_topic("t")
        with member(broker.address, "t") as c, pytest.raises(UnsupportedVersionError, match="classic"):
            poll_until(c, lambda: False)


@pytest.mark.option("group.protocol", "partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")
def test_options_of_the_other_group_protocol_are_rejected() -> None:
    options: list[tuple[str, Any]] = [
        ("partition_assignment_strategy", "range"),
        ("session_timeout_ms", 10_000),
        ("heartbeat_interval_ms", 100),
    ]
    for name, value in options:
        with pytest.raises(ConfigurationError, match=name.replace("_", r"\.")):
            KafkaConsumer(bootstrap_servers="localhost:1", group_protocol="consumer", group_id="g", **{name: value})
    with pytest.raises(ConfigurationError, match=r"group\.remote\.assignor"):
        KafkaConsumer(bootstrap_servers="localhost:1", group_id="g", group_remote_assignor="uniform")


def test_server_side_pattern_requires_the_consumer_protocol(broker: ScriptedBroker) -> None:
    with KafkaConsumer(bootstrap_servers=broker.address, group_id="g") as c, pytest.raises(UnsupportedVersionError):
        c.subscribe(pattern=SubscriptionPattern("a"))


def test_every_state_has_transitions() -> None:
    assert set(MOVES) == set(State)
    assert all(moves for moves in MOVES.values())


def test_rebalance_listener_may_seek_in_assigned_partitions(broker: ScriptedBroker, coordinator: Coordinator) -> None:
    fill(broker, 10)

    class Seeker(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            assert threading.current_thread() is threading.main_thread()
            for tp in assigned:
                c.seek(tp, 7)

    with member(broker.address, group_id="g") as c:
        c.subscribe(["t"], listener=Seeker())
        assert [r.offset for r in read(c, 3)] == [7, 8, 9]
