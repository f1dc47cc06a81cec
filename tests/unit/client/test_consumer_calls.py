"""Calls of the consumer: commits and their order, group membership, wakeup, positions and lookups."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from tests.unit.client.consuming import TP, Listener, consumer, fill, poll_until, read
from tests.unit.client.scripted import DROP, SILENCE, ScriptedBroker

from ottla import (
    ConsumerRebalanceListener,
    GroupMembershipOperation,
    KafkaConsumer,
    OffsetAndMetadata,
    TopicPartition,
)
from ottla.client.consumer import core
from ottla.client.consumer.fetch.ranges import Planner
from ottla.errors import (
    CommitFailedError,
    CoordinatorLoadInProgressError,
    FencedInstanceIdError,
    IllegalStateError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    NotCoordinatorError,
    RetriableCommitFailedError,
    WakeupError,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, TopicPartitions
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.protocol.versioned import encode_versioned


def commit_error(code: int) -> Any:
    part = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    return lambda _: OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[part])])


# Commits


def test_commit_async_is_sent_once_and_reports_a_retriable_error(broker: ScriptedBroker) -> None:
    output: list[Any] = []
    with consumer(broker, "t", group_id="g", enable_auto_commit=False) as c:
        poll_until(c, lambda: bool(c.assignment()))
        broker.on(OffsetCommitRequest, commit_error(15))
        c.commit_async({TP: 3}, lambda offsets, error: output.append(error))
        poll_until(c, lambda: bool(output))
    assert isinstance(output[0], RetriableCommitFailedError)
    assert len(broker.requests_of(OffsetCommitRequest)) == 1


def test_commit_is_sent_after_asynchronous_commits_and_their_callbacks(broker: ScriptedBroker) -> None:
    output: list[int] = []
    with consumer(broker, "t", group_id="g", enable_auto_commit=False) as c:
        poll_until(c, lambda: bool(c.assignment()))
        for number in range(1, 6):
            c.commit_async({TP: number}, lambda offsets, error: output.append(offsets[TP].offset))
        c.commit({TP: 6})
        assert output == [1, 2, 3, 4, 5]
    requests = broker.requests_of(OffsetCommitRequest)
    assert [r.topics[0].partitions[0].committed_offset for r in requests] == [1, 2, 3, 4, 5, 6]


def test_commit_of_one_generation_is_not_retried_in_the_next(broker: ScriptedBroker) -> None:
    output: list[Any] = []
    with consumer(broker, "t", group_id="g", enable_auto_commit=False, heartbeat_interval_ms=20) as c:
        poll_until(c, lambda: bool(c.assignment()))
        broker.on(OffsetCommitRequest, lambda _: DROP)
        c.commit_async({TP: 1}, lambda offsets, error: output.append(error))
        broker.on(HeartbeatRequest, lambda _: HeartbeatResponse(error_code=27))
        poll_until(c, lambda: len(broker.requests_of(JoinGroupRequest)) == 2 and bool(output))
        time.sleep(0.05)
    assert [r.generation_id_or_member_epoch for r in broker.requests_of(OffsetCommitRequest)] == [1]


def test_commit_sends_metadata_and_leader_epoch(broker: ScriptedBroker) -> None:
    with consumer(broker, group_id="g") as c:
        c.assign([TP])
        c.commit({TP: OffsetAndMetadata(5, "note", 3)})
        request = broker.requests_of(OffsetCommitRequest)[-1]
        part = request.topics[0].partitions[0]
        assert (part.committed_offset, part.committed_metadata, part.committed_leader_epoch) == (5, "note", 3)
        assert (request.generation_id_or_member_epoch, request.member_id) == (-1, ""), "from outside the group"
        assert c.committed([TP, TopicPartition("t", 1)]) == {
            TP: OffsetAndMetadata(5, "note"),
            TopicPartition("t", 1): None,
        }
        assert c.committed(set()) == {}
        with pytest.raises(ValueError, match="-1"):
            c.commit({TP: -1})


@pytest.mark.option("default.api.timeout.ms")
def test_commit_ends_at_its_timeout(broker: ScriptedBroker) -> None:
    broker.on(OffsetCommitRequest, lambda _: SILENCE, times=100)
    with consumer(broker, group_id="g", default_api_timeout_ms=200) as c:
        c.assign([TP])
        for call in (partial(c.commit, {TP: 1}), partial(c.commit, {TP: 1}, timeout_ms=100)):
            begin = time.monotonic()
            with pytest.raises(KafkaTimeoutError):
                call()
            assert time.monotonic() - begin < 2


def test_fenced_instance_id_is_raised_by_commit_and_poll(broker: ScriptedBroker) -> None:
    with consumer(broker, "t", group_id="g", group_instance_id="me", enable_auto_commit=False) as c:
        poll_until(c, lambda: bool(c.assignment()))
        broker.on(OffsetCommitRequest, commit_error(82))
        with pytest.raises(FencedInstanceIdError):
            c.commit({TP: 1})
        with pytest.raises(FencedInstanceIdError, match="me"):
            c.poll()


def test_fenced_instance_id_in_a_join_is_raised_and_not_followed_by_another_join(broker: ScriptedBroker) -> None:
    with consumer(broker, "t", group_id="g", group_instance_id="me", enable_auto_commit=False) as c:
        broker.on(JoinGroupRequest, lambda _: JoinGroupResponse(error_code=82))
        with pytest.raises(FencedInstanceIdError, match="me"):
            poll_until(c, lambda: bool(c.assignment()))
        assert len(broker.requests_of(JoinGroupRequest)) == 1


# Group membership


@pytest.mark.option("max.poll.interval.ms")
def test_consumer_beyond_max_poll_interval_leaves_and_loses_its_partitions(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener()
    with consumer(broker, group_id="g", max_poll_interval_ms=200, enable_auto_commit=False) as c:
        c.subscribe(["t"], listener=listener)
        poll_until(c, lambda: bool(c.assignment()))
        broker.wait_for(lambda: bool(broker.requests_of(LeaveGroupRequest)))
        (identity,) = broker.requests_of(LeaveGroupRequest)[0].members
        assert "poll timeout" in (identity.reason or "")
        assert "not called within max.poll.interval.ms=200, so this member gives up its partitions" in caplog.text
        assert "lower max.poll.records (now 500)" in caplog.text
        time.sleep(0.05)
        with pytest.raises(CommitFailedError):
            c.commit({TP: 1})
        poll_until(c, lambda: len(listener.calls) == 3)
        c.commit({TP: 1})
    assert [kind for kind, _, _ in listener.calls[:3]] == ["assigned", "lost", "assigned"]


@pytest.mark.option("heartbeat.interval.ms", "session.timeout.ms")
def test_heartbeats_are_sent_between_polls(broker: ScriptedBroker) -> None:
    with consumer(broker, "t", group_id="g", heartbeat_interval_ms=10, session_timeout_ms=6000) as c:
        poll_until(c, lambda: bool(c.assignment()))
        count = len(broker.requests_of(HeartbeatRequest))
        broker.wait_for(lambda: len(broker.requests_of(HeartbeatRequest)) >= count + 5)
    assert broker.requests_of(JoinGroupRequest)[0].session_timeout_ms == 6000


def test_session_timeout_without_a_response_loses_the_partitions(broker: ScriptedBroker) -> None:
    listener = Listener()
    options = {"heartbeat_interval_ms": 20, "session_timeout_ms": 200, "request_timeout_ms": 100}
    with consumer(broker, group_id="g", **options) as c:
        c.subscribe(["t"], listener=listener)
        poll_until(c, lambda: bool(c.assignment()))
        broker.on(HeartbeatRequest, lambda _: DROP, times=40)
        poll_until(c, lambda: len(listener.calls) >= 3)
    assert [kind for kind, _, _ in listener.calls[:3]] == ["assigned", "lost", "assigned"]


def test_enforce_rebalance_rejoins_with_its_reason(broker: ScriptedBroker) -> None:
    with consumer(broker, "t", group_id="g") as c:
        poll_until(c, lambda: bool(c.assignment()))
        c.enforce_rebalance("new rack")
        poll_until(c, lambda: len(broker.requests_of(JoinGroupRequest)) == 2)
    assert broker.requests_of(JoinGroupRequest)[1].reason == "new rack"


@pytest.mark.option("partition.assignment.strategy")
def test_cooperative_member_reads_while_it_rejoins(broker: ScriptedBroker) -> None:
    options = {"partition_assignment_strategy": ["cooperative-sticky"], "heartbeat_interval_ms": 20}
    with consumer(broker, "t", group_id="g", **options) as c:
        poll_until(c, lambda: bool(c.assignment()))
        broker.on(JoinGroupRequest, lambda _: SILENCE)
        c.enforce_rebalance()
        c.poll()
        fill(broker, 10)
        assert len(read(c, 10)) == 10
        with pytest.raises(CommitFailedError, match="rebalancing"):
            c.commit()


@pytest.mark.option("partition.assignment.strategy")
def test_busy_cooperative_member_applies_its_assignment_between_two_polls(broker: ScriptedBroker) -> None:
    broker.add_topic("t", 2)
    fill(broker, 2000)
    listener = Listener()
    with consumer(broker, group_id="g", partition_assignment_strategy=["cooperative-sticky"], max_poll_records=5) as c:
        c.subscribe(["t"], listener=listener)
        read(c, 5)
        broker.on(SyncGroupRequest, lambda _: SyncGroupResponse(assignment=assignment_of(1)))
        c.enforce_rebalance()
        for _ in range(100):
            assert c._core.buffer.has_records, "poll() has records all the time"
            c.poll(timeout_ms=1000)
            time.sleep(0.005)
            if ("revoked", [0], True) in listener.calls:
                break
        assert listener.calls[:2] == [("assigned", [0, 1], True), ("revoked", [0], True)]


def test_cooperative_member_that_closes_during_a_join_commits(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    options = {"partition_assignment_strategy": ["cooperative-sticky"], "auto_commit_interval_ms": 10**6}
    with consumer(broker, "t", group_id="g", **options) as c:
        read(c, 10)
        broker.on(JoinGroupRequest, lambda _: SILENCE)
        c.enforce_rebalance()
        poll_until(c, lambda: len(broker.requests_of(JoinGroupRequest)) == 2)
    assert broker.committed[("t", 0)] == (10, "")


def assignment_of(partition: int) -> bytes:
    """Return an assignment of one partition of t."""
    topics = [TopicPartitions(topic="t", partitions=[partition])]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=topics), 1)


def test_static_leader_that_skips_the_assignment_rejoins_when_partitions_are_added(broker: ScriptedBroker) -> None:
    def skipping(request: JoinGroupRequest) -> JoinGroupResponse:
        member = JoinGroupResponseMember(member_id="m", metadata=request.protocols[0].metadata)
        return JoinGroupResponse(
            generation_id=1,
            protocol_name=request.protocols[0].name,
            leader="m",
            member_id="m",
            members=[member],
            skip_assignment=True,
        )

    broker.on(JoinGroupRequest, skipping)
    broker.on(SyncGroupRequest, lambda _: SyncGroupResponse(assignment=assignment_of(0)))
    with consumer(broker, group_id="g", group_instance_id="me", metadata_max_age_ms=50) as c:
        c.subscribe(["t"])
        poll_until(c, lambda: c.assignment() == {TP})
        assert broker.requests_of(SyncGroupRequest)[0].assignments == []
        broker.add_topic("t", 2)
        poll_until(c, lambda: c.assignment() == {TP, TopicPartition("t", 1)})


def test_assigned_partition_with_a_negative_number_has_no_records(broker: ScriptedBroker) -> None:
    with consumer(broker, group_id=None) as c:
        c.assign([TopicPartition("missing", -1)])
        assert c.poll(timeout_ms=100) == {}


def test_unsubscribe_calls_the_listener_and_leaves_the_group(broker: ScriptedBroker) -> None:
    listener = Listener()
    with consumer(broker, group_id="g") as c:
        c.subscribe(["t"], listener=listener)
        poll_until(c, lambda: bool(c.assignment()))
        c.unsubscribe()
        assert [kind for kind, _, _ in listener.calls] == ["assigned", "revoked"]
        assert c.assignment() == set()
        assert len(broker.requests_of(LeaveGroupRequest)) == 1
        with pytest.raises(IllegalStateError, match="not subscribed to any topic"):
            c.poll()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumer_joins_again_after_an_unsubscribe_that_could_not_leave_in_time(
    broker: ScriptedBroker, protocol: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(core, "LEAVE_SECONDS", 0.05)

    def late(request: Any) -> None:
        if getattr(request, "member_epoch", -1) < 0:
            time.sleep(0.2)

    broker.on(LeaveGroupRequest, late, times=10**6)
    broker.on(ConsumerGroupHeartbeatRequest, late, times=10**6)
    with consumer(broker, group_id="g", group_protocol=protocol) as c:
        joins = partial(joins_of, broker)
        c.subscribe(["t"])
        poll_until(c, lambda: joins() == 1)
        poll_until(c, lambda: c._core.membership.is_settled)
        c.unsubscribe()
        assert "Leaving group g was not confirmed in time" in caplog.text
        c.subscribe(["t"])
        poll_until(c, lambda: joins() == 2)


@pytest.mark.parametrize("code", [NotCoordinatorError.code, CoordinatorLoadInProgressError.code])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_close_leaves_the_group_at_the_new_coordinator(broker: ScriptedBroker, protocol: str, code: int) -> None:
    leaves = 0

    def first_fails(request: Any) -> Any:
        nonlocal leaves
        leaves += getattr(request, "member_epoch", -1) < 0
        if leaves != 1:
            return None
        is_classic = isinstance(request, LeaveGroupRequest)
        return (LeaveGroupResponse if is_classic else ConsumerGroupHeartbeatResponse)(error_code=code)

    with consumer(broker, "t", group_id="g", group_protocol=protocol) as c:
        poll_until(c, lambda: joins_of(broker) == 1 and c._core.membership.is_settled)
        lookups = len(broker.requests_of(FindCoordinatorRequest))
        broker.on(LeaveGroupRequest, first_fails, times=10**6)
        broker.on(ConsumerGroupHeartbeatRequest, first_fails, times=10**6)
    assert leaves == 2
    assert len(broker.requests_of(FindCoordinatorRequest)) == lookups + 1


def joins_of(broker: ScriptedBroker) -> int:
    """Return the number of requests that joined the group."""
    heartbeats = broker.requests_of(ConsumerGroupHeartbeatRequest)
    joining = [request for request in heartbeats if request.member_epoch == 0]
    return len(broker.requests_of(JoinGroupRequest)) + len(joining)


@pytest.mark.parametrize(
    ("instance", "operation", "leaves"),
    [
        (None, GroupMembershipOperation.DEFAULT, True),
        (None, GroupMembershipOperation.REMAIN_IN_GROUP, False),
        ("me", GroupMembershipOperation.DEFAULT, False),
        ("me", GroupMembershipOperation.LEAVE_GROUP, True),
    ],
)
def test_close_leaves_the_group_or_not_as_requested(
    broker: ScriptedBroker, instance: str | None, operation: GroupMembershipOperation, leaves: bool
) -> None:
    c = consumer(broker, "t", group_id="g", group_instance_id=instance)
    poll_until(c, lambda: bool(c.assignment()))
    c.close(group_membership=operation)
    assert bool(broker.requests_of(LeaveGroupRequest)) is leaves
    if leaves:
        assert broker.requests_of(LeaveGroupRequest)[0].members[0].group_instance_id == instance


def test_close_raises_the_listeners_error_after_leaving_the_group(broker: ScriptedBroker) -> None:
    class Bad(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            raise RuntimeError("the listener's own")

    c = consumer(broker, group_id="g")
    c.subscribe(["t"], listener=Bad())
    poll_until(c, lambda: bool(c.assignment()))
    with pytest.raises(KafkaError, match="the listener's own"):
        c.close()
    assert broker.requests_of(LeaveGroupRequest)
    c.close()


def test_close_ends_at_its_timeout(broker: ScriptedBroker) -> None:
    c = consumer(broker, "t", group_id="g")
    poll_until(c, lambda: bool(c.assignment()))
    broker.on(OffsetCommitRequest, lambda _: SILENCE, times=100)
    broker.on(LeaveGroupRequest, lambda _: SILENCE, times=100)
    fill(broker, 5)
    read(c, 5)
    begin = time.monotonic()
    c.close(timeout_ms=200)
    assert time.monotonic() - begin < 2


# Wakeup


def test_wakeup_interrupts_a_waiting_poll(broker: ScriptedBroker) -> None:
    with consumer(broker) as c:
        c.assign([TP])
        c.poll(timeout_ms=50)
        threading.Timer(0.1, c.wakeup).start()
        begin = time.monotonic()
        with pytest.raises(WakeupError):
            c.poll(timeout_ms=60_000)
        assert time.monotonic() - begin < 5
        fill(broker, 3)
        assert len(read(c, 3)) == 3, "the consumer continues"


def test_wakeup_before_a_call_interrupts_the_next_waiting_one(broker: ScriptedBroker) -> None:
    with consumer(broker) as c:
        c.assign([TP])
        c.wakeup()
        with pytest.raises(WakeupError):
            c.poll(timeout_ms=10_000)
        c.wakeup()
        with pytest.raises(WakeupError):
            c.end_offsets([TP])
        assert c.end_offsets([TP]) == {TP: 0}


def test_wakeup_during_a_join_loses_no_partition(broker: ScriptedBroker) -> None:
    listener = Listener()
    with consumer(broker, group_id="g") as c:
        c.subscribe(["t"], listener=listener)
        for _ in range(20):
            c.wakeup()
            with pytest.raises(WakeupError):
                c.poll(timeout_ms=5000)
        poll_until(c, lambda: c.assignment() == {TP})
    assert [kind for kind, _, _ in listener.calls] == ["assigned", "revoked"]


# Positions


def test_current_lag_is_available_after_a_fetch(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    with consumer(broker, max_poll_records=4) as c:
        c.assign([TP])
        assert c.current_lag(TP) is None
        read(c, 4)
        assert c.current_lag(TP) == 6
        assert c.highwater(TP) == 10
        with pytest.raises(IllegalStateError):
            c.current_lag(TopicPartition("t", 9))


def test_seek_to_time_moves_to_the_first_record_of_that_time_or_to_the_end(broker: ScriptedBroker) -> None:
    fill(broker, 30)
    with consumer(broker) as c:
        c.assign([TP])
        c.seek_to_time({TP: 1005})
        assert c.position(TP) == 0, "the scripted broker returns the first offset of the batch"
        c.seek_to_time({TP: 10**9})
        assert c.position(TP) == 30
        with pytest.raises(ValueError, match="-5"):
            c.seek_to_time({TP: -5})


def test_topics_are_listed_with_their_partitions(broker: ScriptedBroker) -> None:
    broker.add_topic("other", 2)
    with consumer(broker) as c:
        listed = c.list_topics()
        assert {topic: len(parts) for topic, parts in listed.items()} == {"t": 1, "other": 2}
        assert [p.leader for p in c.partitions_for("other")] == [7, 7]
        assert c.topics() == {"t", "other"}


def test_planner_of_ranges_has_the_ids_of_topics_at_its_last_lookup(broker: ScriptedBroker) -> None:
    old, new = UUID(int=1), UUID(int=2)
    broker.topic_ids["t"] = old
    broker.add_topic("other")
    with Planner({"bootstrap.servers": broker.address}) as planner:
        assert planner.topics("^t$") == {"t"}
        assert planner.topic_ids == {"t": old, "other": UUID(int=0)}
        broker.topic_ids["t"] = new
        assert planner.topics() == {"t", "other"}
        assert planner.topic_ids["t"] == new


def test_metadata_refresh_excludes_topics_of_lookups(broker: ScriptedBroker) -> None:
    broker.add_topic("other")
    with consumer(broker, metadata_max_age_ms=20) as c:
        c.assign([TP])
        c.poll()
        assert c.end_offsets([TopicPartition("other", 0)]) == {TopicPartition("other", 0): 0}
        count = len(broker.requests_of(MetadataRequest))
        broker.wait_for(lambda: len(broker.requests_of(MetadataRequest)) >= count + 3)
        assert [t.name for t in broker.requests_of(MetadataRequest)[-1].topics] == ["t"]
        c.unsubscribe()
        broker.wait_for(lambda: broker.requests_of(MetadataRequest)[-1].topics == [])


def test_paused_partition_stays_paused_through_a_cooperative_rebalance(broker: ScriptedBroker) -> None:
    with consumer(broker, "t", group_id="g", partition_assignment_strategy=["cooperative-sticky"]) as c:
        poll_until(c, lambda: bool(c.assignment()))
        c.pause(TP)
        c.enforce_rebalance()
        poll_until(c, lambda: len(broker.requests_of(JoinGroupRequest)) == 2 and c._core.membership.is_settled)
        assert c.paused() == {TP}
        fill(broker, 3)
        assert c.poll(timeout_ms=50) == {}
        c.resume(TP)
        assert len(read(c, 3)) == 3


@pytest.mark.option("exclude.internal.topics")
@pytest.mark.parametrize(("excluded", "result"), [(True, {"t"}), (False, {"t", "__internal"})])
def test_pattern_subscription_excludes_internal_topics_if_configured(
    broker: ScriptedBroker, excluded: bool, result: set[str]
) -> None:
    broker.add_topic("__internal")

    def internal(request: MetadataRequest) -> Any:
        response = broker._metadata(request)
        for topic in response.topics:  # type: ignore[attr-defined]
            topic.is_internal = topic.name.startswith("__")
        return response

    broker.on(MetadataRequest, internal, times=1000)
    with consumer(broker, group_id="g", exclude_internal_topics=excluded) as c:
        c.subscribe(pattern="t")
        poll_until(c, lambda: bool(c.assignment()))
        assert c.subscription() == result


@pytest.mark.option("allow.auto.create.topics")
@pytest.mark.parametrize("allowed", [True, False])
def test_metadata_request_allows_auto_topic_creation_if_configured(broker: ScriptedBroker, allowed: bool) -> None:
    with consumer(broker, allow_auto_create_topics=allowed, default_api_timeout_ms=300) as c:
        assert c.partitions_for_topic("nowhere") is None
        requests = [r for r in broker.requests_of(MetadataRequest) if any(t.name == "nowhere" for t in r.topics or ())]
        assert requests
        assert {r.allow_auto_topic_creation for r in requests} == {allowed}


def test_poll_with_max_records_0_raises_value_error(broker: ScriptedBroker) -> None:
    with consumer(broker) as c:
        c.assign([TP])
        with pytest.raises(ValueError, match="max_records"):
            c.poll(max_records=0)


def test_poll_without_a_subscription_raises_illegal_state(broker: ScriptedBroker) -> None:
    c: KafkaConsumer
    with consumer(broker) as c, pytest.raises(IllegalStateError, match="not subscribed to any topic"):
        c.poll()


@pytest.mark.parametrize("silent", [OffsetFetchRequest, FindCoordinatorRequest])
def test_committed_with_a_silent_coordinator_ends_at_its_timeout(broker: ScriptedBroker, silent: type[Any]) -> None:
    with consumer(broker, group_id="g") as c:
        c.assign([TP])
        broker.on(silent, lambda _: SILENCE, times=100)
        began = time.monotonic()
        with pytest.raises(KafkaTimeoutError):
            c.committed(TP, timeout_ms=100)
        assert time.monotonic() - began < 2


def test_end_offsets_with_a_silent_leader_ends_at_its_timeout(broker: ScriptedBroker) -> None:
    with consumer(broker) as c:
        c.assign([TP])
        poll_until(c, lambda: c._core.metadata.cluster.partition(TP) is not None)
        broker.cut()
        broker.on(ApiVersionsRequest, lambda _: SILENCE, times=100)
        began = time.monotonic()
        with pytest.raises(KafkaTimeoutError, match="t-0"):
            c.end_offsets([TP], timeout_ms=100)
        assert time.monotonic() - began < 2


@pytest.mark.parametrize("name", ["\ud800", "x" * 32_768])
def test_topic_name_that_cannot_be_encoded_raises_invalid_topic(broker: ScriptedBroker, name: str) -> None:
    fill(broker, 1)
    with consumer(broker, group_id="g") as c:
        calls = (c.assign, c.end_offsets, lambda tps: c.subscribe([tp.topic for tp in tps]))
        for call in calls:
            with pytest.raises(InvalidTopicError):
                call([TopicPartition(name, 0)])
        c.assign([TP])
        assert len(read(c, 1)) == 1
