"""Fetching: sessions, topic ids, read replicas, leader changes, log truncation (KIP-320), limits and fairness."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from tests.unit.client.consuming import TP, batch, consumer, fill, poll_until, read
from tests.unit.client.scripted import ScriptedBroker

from ottla import KafkaConsumer, OffsetAndMetadata, TopicPartition
from ottla.client.consumer.fetch.fetcher import Fetcher
from ottla.errors import CorruptMessageError, LogTruncationError, OffsetOutOfRangeError
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.protocol.messages.list_offsets import ListOffsetsRequest
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.offset_commit import OffsetCommitRequest
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from ottla.records.batch import assign, read_header
from ottla.records.builder import BatchBuilder

ID, OTHER_ID = UUID(int=77), UUID(int=78)


def fetch_response(data: PartitionData, **more: Any) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", topic_id=ID, partitions=[data])], **more)


def fetches(broker: ScriptedBroker) -> list[tuple[FetchRequest, int]]:
    """Return fetch requests with their versions."""
    return [
        (r, h.api_version) for r, h in zip(broker.requests, broker.headers, strict=True) if isinstance(r, FetchRequest)
    ]


# Topic ids and sessions


def test_fetch_uses_topic_ids_if_broker_and_topic_have_them(broker: ScriptedBroker) -> None:
    broker.topic_ids["t"] = ID
    fill(broker, 10)
    with consumer(broker) as c:
        c.assign([TP])
        assert len(read(c, 10)) == 10
    assert {version for _, version in fetches(broker)} == {18}
    assert fetches(broker)[0][0].topics[0].topic_id == ID


def test_topic_without_an_id_makes_the_fetch_session_use_names(broker: ScriptedBroker) -> None:
    broker.topic_ids["t"] = ID
    broker.add_topic("old")
    fill(broker, 10)
    fill(broker, 10, topic="old")
    with consumer(broker) as c:
        c.assign([TP])
        read(c, 10)
        c.unsubscribe()
        c.assign([TP, TopicPartition("old", 0)])
        assert len(read(c, 20)) == 20
    assert {version for _, version in fetches(broker)} == {18, 12}


@pytest.mark.parametrize("code", [100, 103, 106])
def test_recreated_topic_is_read_by_its_new_id(broker: ScriptedBroker, code: int) -> None:
    broker.topic_ids["t"] = ID
    fill(broker, 10)

    def with_new_id(request: FetchRequest) -> FetchResponse:
        broker.topic_ids["t"] = OTHER_ID
        if code == 106:
            return FetchResponse(error_code=code)
        return fetch_response(PartitionData(error_code=code, high_watermark=-1))

    broker.on(FetchRequest, with_new_id)
    with consumer(broker, metadata_max_age_ms=50) as c:
        c.assign([TP])
        assert len(read(c, 10)) == 10
    assert fetches(broker)[-1][0].topics[0].topic_id == OTHER_ID


class Sessions:
    """Fetch sessions of a broker (KIP-227): the partitions and positions of the consumer."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.positions: dict[int, int] = {}
        self.id = 5
        self.errors: list[int] = []
        self.requests: list[FetchRequest] = []
        broker.on(FetchRequest, self.respond, times=10**6)

    def respond(self, request: FetchRequest) -> FetchResponse:
        self.requests.append(request)
        if request.session_epoch == -1:
            return FetchResponse()
        if self.errors:
            return FetchResponse(error_code=self.errors.pop())
        if request.session_epoch == 0:
            self.positions, self.id = {}, self.id + 1
        else:
            assert request.session_id == self.id
        requests = {p.partition: p for t in request.topics for p in t.partitions}
        for removed in (p for t in request.forgotten_topics_data for p in t.partitions):
            self.positions.pop(removed, None)
        self.positions.update({i: p.fetch_offset for i, p in requests.items()})
        result = []
        for index, offset in self.positions.items():
            data = b"".join(b for b in self.broker.topics["t"][index] if read_header(b).next_offset > offset)
            if data or index in requests:
                end = self.broker.end("t", index)
                result.append(PartitionData(partition_index=index, high_watermark=end, records=data))
        if not any(p.records and p.records.nbytes if not isinstance(p.records, bytes) else p.records for p in result):
            time.sleep(0.005)
        return FetchResponse(
            session_id=self.id, responses=[FetchableTopicResponse(topic="t", partitions=result)] if result else []
        )


@pytest.fixture
def sessions(broker: ScriptedBroker) -> Sessions:
    return Sessions(broker)


def test_fetch_session_returns_records_without_repeating_partitions(broker: ScriptedBroker, sessions: Sessions) -> None:
    broker.add_topic("t", 3)
    with consumer(broker) as c:
        c.assign([TopicPartition("t", i) for i in range(3)])
        poll_until(c, lambda: len(sessions.requests) > 3)
        assert not sessions.requests[-1].topics
        fill(broker, 10, partition=1)
        assert len(read(c, 10)) == 10
        poll_until(c, lambda: any(r.topics for r in sessions.requests[1:]))
        (named,) = [r for r in sessions.requests[1:] if r.topics]
        assert [(p.partition, p.fetch_offset) for p in named.topics[0].partitions] == [(1, 10)]


@pytest.mark.parametrize(("code", "remaining"), [(70, False), (71, True)])
def test_fetch_session_restarts_after_an_error(
    broker: ScriptedBroker, sessions: Sessions, code: int, remaining: bool
) -> None:
    fill(broker, 10)
    with consumer(broker) as c:
        c.assign([TP])
        read(c, 10)
        poll_until(c, lambda: len(sessions.requests) > 3)
        existing = sessions.id
        sessions.errors.append(code)
        count = len(sessions.requests)
        poll_until(c, lambda: any(r.session_epoch == 0 for r in sessions.requests[count:]))
        again = next(r for r in sessions.requests[count:] if r.session_epoch == 0)
        assert again.topics, "with all partitions"
        assert again.session_id == (existing if remaining else 0), "the request closes a session that still exists"
        fill(broker, 5)
        assert len(read(c, 5)) == 5


def test_close_closes_the_fetch_session(broker: ScriptedBroker, sessions: Sessions) -> None:
    with consumer(broker) as c:
        c.assign([TP])
        poll_until(c, lambda: len(sessions.requests) > 3)
        c.pause(TP)
        poll_until(c, lambda: not c._core.fetcher._busy)
    assert (sessions.requests[-1].session_id, sessions.requests[-1].session_epoch) == (sessions.id, -1)


# Read replicas and leaders


@pytest.fixture
def pair() -> Iterator[tuple[ScriptedBroker, ScriptedBroker]]:
    """The leader (7) and a follower (8) of t-0, with the same records."""
    with ScriptedBroker() as leader, ScriptedBroker() as follower:
        for broker in (leader, follower):
            broker.add_topic("t")
            fill(broker, 10)
        set_metadata(leader, follower)
        yield leader, follower


def set_metadata(leader: ScriptedBroker, follower: ScriptedBroker, leads: int = 7, epoch: int = 0) -> None:
    """Let both brokers respond to metadata requests with both."""
    partition = MetadataResponsePartition(
        partition_index=0, leader_id=leads, leader_epoch=epoch, replica_nodes=[7, 8], isr_nodes=[7, 8]
    )

    def respond(request: MetadataRequest) -> MetadataResponse:
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=7, host=leader.host, port=leader.port),
                MetadataResponseBroker(node_id=8, host=follower.host, port=follower.port, rack="near"),
            ],
            controller_id=7,
            topics=[MetadataResponseTopic(name="t", partitions=[partition])],
        )

    for broker in (leader, follower):
        broker._scripts[MetadataRequest.NAME][:] = [[respond, 10**6]]


def prefer_follower(request: FetchRequest) -> FetchResponse | None:
    """Respond like a leader that has a replica in the rack of the consumer."""
    if not request.topics:
        return None
    return fetch_response(PartitionData(high_watermark=10, preferred_read_replica=8))


@pytest.mark.option("client.rack")
def test_records_are_fetched_from_the_preferred_read_replica(pair: tuple[ScriptedBroker, ScriptedBroker]) -> None:
    leader, follower = pair
    leader.on(FetchRequest, prefer_follower, times=100)
    with consumer(leader, client_rack="near") as c:
        c.assign([TP])
        assert len(read(c, 10)) == 10
    assert leader.requests_of(FetchRequest)[0].rack_id == "near"
    assert len(leader.requests_of(FetchRequest)) == 1
    assert follower.requests_of(FetchRequest)


@pytest.mark.option("metadata.max.age.ms")
def test_preferred_read_replica_expires_after_metadata_max_age(pair: tuple[ScriptedBroker, ScriptedBroker]) -> None:
    leader, _ = pair
    leader.on(FetchRequest, prefer_follower, times=100)
    with consumer(leader, metadata_max_age_ms=100, fetch_max_wait_ms=10) as c:
        c.assign([TP])
        read(c, 10)
        poll_until(c, lambda: len(leader.requests_of(FetchRequest)) >= 3)


@pytest.mark.parametrize("code", [1, 6])
def test_fetch_error_of_the_read_replica_falls_back_to_the_leader(
    pair: tuple[ScriptedBroker, ScriptedBroker], code: int
) -> None:
    leader, follower = pair
    leader.on(FetchRequest, prefer_follower)
    follower.on(FetchRequest, lambda _: fetch_response(PartitionData(error_code=code, high_watermark=-1)), times=100)
    with consumer(leader, auto_offset_reset="none", client_rack="near") as c:
        c.assign([TP])
        c.seek(TP, 3)
        assert [r.offset for r in read(c, 7)] == list(range(3, 10)), "nothing was reset"
    assert len(follower.requests_of(FetchRequest)) == 1


def test_unreachable_read_replica_falls_back_to_the_leader(pair: tuple[ScriptedBroker, ScriptedBroker]) -> None:
    leader, follower = pair
    leader.on(FetchRequest, prefer_follower)
    with consumer(leader, client_rack="near", socket_connection_setup_timeout_ms=200) as c:
        follower.__exit__()
        c.assign([TP])
        assert len(read(c, 10)) == 10
    assert len(leader.requests_of(FetchRequest)) >= 2


def test_new_leader_in_a_fetch_response_is_used_although_metadata_lacks_it(
    pair: tuple[ScriptedBroker, ScriptedBroker],
) -> None:
    old, new = pair
    for broker in pair:
        broker.topic_ids["t"] = ID
        broker._scripts[MetadataRequest.NAME].clear()
    new.leader_epoch = 4

    def not_leader(request: FetchRequest) -> FetchResponse:
        set_metadata(old, new, leads=8, epoch=4)  # later metadata responses have it as well
        leader = LeaderIdAndEpoch(leader_id=8, leader_epoch=4)
        endpoint = NodeEndpoint(node_id=8, host=new.host, port=new.port)
        return fetch_response(
            PartitionData(error_code=6, high_watermark=-1, current_leader=leader), node_endpoints=[endpoint]
        )

    old.on(FetchRequest, not_leader)
    with consumer(old) as c:
        c.assign([TP])
        c.seek(TP, 0)
        assert len(read(c, 10)) == 10
    assert new.requests_of(FetchRequest)[0].topics[0].partitions[0].current_leader_epoch == 4


# Log truncation and leader changes (KIP-320)


def elect(broker: ScriptedBroker, keep: int, epoch: int) -> None:
    """Elect a new leader whose log has the first `keep` batches only."""
    with broker._changed:
        broker.leader_epoch = epoch
        del broker.topics["t"][0][keep:]


def put(broker: ScriptedBroker, count: int) -> None:
    broker.put("t", 0, batch(b"new-%d" % i for i in range(count)))


def request_metadata(c: KafkaConsumer) -> None:
    c._io.call_soon(c._core.metadata.request_update)


def test_position_is_validated_after_a_leader_change(broker: ScriptedBroker) -> None:
    fill(broker, 30)
    with consumer(broker, metadata_max_age_ms=50) as c:
        c.assign([TP])
        read(c, 30)
        elect(broker, 3, 5)
        poll_until(c, lambda: bool(broker.requests_of(OffsetForLeaderEpochRequest)))
        put(broker, 5)
        assert len(read(c, 5)) == 5
    (request,) = broker.requests_of(OffsetForLeaderEpochRequest)
    requests = request.topics[0].partitions[0]
    assert (request.replica_id, requests.leader_epoch, requests.current_leader_epoch) == (-1, 0, 5)
    assert fetches(broker)[-1][0].topics[0].partitions[0].current_leader_epoch == 5


def test_truncated_log_is_read_from_the_divergent_offset(broker: ScriptedBroker) -> None:
    fill(broker, 30)
    with consumer(broker, metadata_max_age_ms=50) as c:
        c.assign([TP])
        read(c, 30)
        elect(broker, 1, 5)
        put(broker, 10)
        put(broker, 20)
        result = read(c, 30)
        assert [r.offset for r in result] == list(range(10, 40))
        assert result[0].value == b"new-0"


def test_truncated_log_without_a_reset_policy_raises_log_truncation_error(broker: ScriptedBroker) -> None:
    fill(broker, 30)
    with consumer(broker, metadata_max_age_ms=50, auto_offset_reset="none") as c:
        c.assign([TP])
        c.seek(TP, 0)
        read(c, 30)
        elect(broker, 1, 5)
        put(broker, 30)
        with pytest.raises(LogTruncationError, match="t-0 diverges at 10") as raised:
            poll_until(c, lambda: False)
        assert raised.value.divergent_offsets == {TP: OffsetAndMetadata(10, "", 0)}
        assert isinstance(raised.value, OffsetOutOfRangeError)
        c.seek(TP, 10)
        assert read(c, 1)[0].value == b"new-0"


def test_seek_during_a_validation_is_not_validated_instead(broker: ScriptedBroker) -> None:
    fill(broker, 30)
    with consumer(broker, auto_offset_reset="none") as c:
        c.assign([TP])
        c.seek(TP, 0)
        read(c, 30)

        async def validate_and_seek() -> None:
            state = c._core.subscription.state(TP)
            state.validated = None
            c._core.positions.check_leaders(c._core.metadata.cluster)
            state.seek(10)

        c._io.run(validate_and_seek())
        poll_until(c, lambda: bool(broker.requests_of(OffsetForLeaderEpochRequest)))
        assert read(c, 1)[0].offset >= 10
    assert [r.topics[0].partitions[0].leader_epoch for r in broker.requests_of(OffsetForLeaderEpochRequest)] == [0]


def test_buffered_records_of_a_truncated_log_are_dropped(broker: ScriptedBroker) -> None:
    fill(broker, 30)
    with consumer(broker, metadata_max_age_ms=30, max_poll_records=5) as c:
        c.assign([TP])
        assert len(c.poll(timeout_ms=5000)[TP]) == 5
        elect(broker, 1, 5)
        put(broker, 25)
        broker.wait_for(lambda: bool(broker.requests_of(OffsetForLeaderEpochRequest)))
        while not c._core.positions.has_work:
            time.sleep(0.005)
        result = read(c, 1)
        while result[-1].offset < 34:
            result += read(c, 1)
        values = {r.offset: r.value for r in result}
        assert values[10] == b"new-0"


def test_position_with_a_leader_epoch_is_validated_before_the_first_fetch(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    broker.leader_epoch = 3
    with consumer(broker, group_id="g", auto_offset_reset="none") as c:
        c.assign([TP])
        c.commit({TP: OffsetAndMetadata(20, "", 0)})
        request = broker.requests_of(OffsetCommitRequest)[-1]
        assert request.topics[0].partitions[0].committed_leader_epoch == 0
        c.seek(TP, OffsetAndMetadata(20, "", 0))
        with pytest.raises(LogTruncationError):
            poll_until(c, lambda: False)


def test_leader_without_the_epoch_resets_the_position_by_the_policy(broker: ScriptedBroker) -> None:
    fill(broker, 10)

    def unknown(request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        end = EpochEndOffset(partition=0, leader_epoch=-1, end_offset=-1)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])])

    broker.on(OffsetForLeaderEpochRequest, unknown)
    with consumer(broker, auto_offset_reset="earliest") as c:
        c.assign([TP])
        c.seek(TP, OffsetAndMetadata(5, "", 0))
        assert read(c, 1)[0].offset == 0


def test_position_from_the_leader_itself_is_not_validated(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    with consumer(broker) as c:
        c.assign([TP])
        read(c, 10)
        c.seek_to_beginning()
        read(c, 10)
    assert not broker.requests_of(OffsetForLeaderEpochRequest)


def test_broker_without_offset_for_leader_epoch_3_is_read_without_validation() -> None:
    with ScriptedBroker(max_versions={"OffsetForLeaderEpoch": 2}) as broker:
        broker.add_topic("t")
        fill(broker, 10)
        with consumer(broker) as c:
            c.assign([TP])
            c.seek(TP, OffsetAndMetadata(5, "", 0))
            assert read(c, 1)[0].offset == 5
        assert not broker.requests_of(OffsetForLeaderEpochRequest)


def test_failed_validation_is_retried(broker: ScriptedBroker) -> None:
    fill(broker, 10)

    def fenced(request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        end = EpochEndOffset(partition=0, error_code=74)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])])

    broker.on(OffsetForLeaderEpochRequest, fenced, times=3)
    with consumer(broker) as c:
        c.assign([TP])
        c.seek(TP, OffsetAndMetadata(5, "", 0))
        assert read(c, 1)[0].offset == 5


# Start position


@pytest.mark.option("auto.offset.reset")
@pytest.mark.parametrize(("late", "first"), [(False, 10), (True, 20)])
def test_by_duration_reset_starts_at_the_offset_of_that_time(broker: ScriptedBroker, late: bool, first: int) -> None:
    now = time.time_ns() // 1_000_000
    for begin in (now - 7_200_000, now - 1_000):
        data = bytearray(batch(b"%d" % i for i in range(10)))
        broker.put("t", 0, with_timestamps(data, begin))
    with consumer(broker, auto_offset_reset="by_duration:PT0.001S" if late else "by_duration:PT1H") as c:
        c.assign([TP])
        assert c.position(TP) == first
    requests = broker.requests_of(ListOffsetsRequest)[0].topics[0].partitions[0].timestamp
    assert abs(requests - (now - (1 if late else 3_600_000))) < 60_000


def with_timestamps(data: bytearray, begin: int) -> bytes:
    """Return the batch with other timestamps."""
    header = read_header(data)
    builder = BatchBuilder(bytearray(100_000))
    for number in range(header.count):
        assert builder.append(begin + number, b"k", b"%d" % number, None)
    return bytes(builder.close())


# Limits and fairness


@pytest.mark.option("fetch.min.bytes", "fetch.max.wait.ms", "fetch.max.bytes", "max.partition.fetch.bytes")
def test_unexpected_error_of_a_fetch_is_retried_after_the_backoff(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[float] = []

    async def fail(*_: object) -> None:
        failures.append(time.monotonic())
        raise RuntimeError("a bug")

    fill(broker, 10)
    with consumer(broker, retry_backoff_ms=100) as c:
        with monkeypatch.context() as context:
            context.setattr(Fetcher, "_fetch", fail)
            c.assign([TP])
            poll_until(c, lambda: len(failures) >= 3)
        assert failures[2] - failures[0] >= 0.2
        assert len(read(c, 10)) == 10


def test_fetch_limits_are_sent_to_the_broker(broker: ScriptedBroker) -> None:
    options = {"fetch_min_bytes": 7, "fetch_max_wait_ms": 33, "fetch_max_bytes": 1234, "max_partition_fetch_bytes": 99}
    with consumer(broker, **options) as c:
        c.assign([TP])
        poll_until(c, lambda: bool(broker.requests_of(FetchRequest)))
    request = broker.requests_of(FetchRequest)[0]
    assert (request.min_bytes, request.max_wait_ms, request.max_bytes) == (7, 33, 1234)
    assert request.topics[0].partitions[0].partition_max_bytes == 99


@pytest.mark.option("max.partition.fetch.bytes")
def test_first_batch_larger_than_the_fetch_limits_is_read(broker: ScriptedBroker) -> None:
    broker.put("t", 0, batch([b"x" * 5000]))
    with consumer(broker, max_partition_fetch_bytes=100, fetch_max_bytes=100) as c:
        c.assign([TP])
        assert len(read(c, 1)[0].value) == 5000


@pytest.mark.option("fetch.max.bytes")
def test_prefetched_bytes_are_bounded_and_partitions_take_turns(broker: ScriptedBroker) -> None:
    partitions = 20
    broker.add_topic("t", partitions)
    for index in range(partitions):
        for _ in range(5):
            broker.put("t", index, batch([b"x" * 1000]))
    size = len(broker.topics["t"][0][0])

    def limited(request: FetchRequest) -> FetchResponse:
        """Return at most 5000 bytes, batch by batch, in the order of the request, like a broker."""
        left, result = 5000, []
        for p in request.topics[0].partitions:
            data = b"".join(b for b in broker.topics["t"][p.partition] if read_header(b).base_offset == p.fetch_offset)
            if left >= len(data):
                left -= len(data)
                result.append(PartitionData(partition_index=p.partition, high_watermark=5, records=data))
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=result)])

    broker.on(FetchRequest, limited, times=10**6)
    with consumer(broker, fetch_max_bytes=5000, max_poll_records=1) as c:
        c.assign([TopicPartition("t", i) for i in range(partitions)])
        seen: list[Any] = []
        largest = 0
        while len(seen) < partitions * 5:
            seen += read(c, 1)
            buffer = c._core.buffer
            largest = max(largest, sum(f.nbytes for f in list(buffer.completed)))
        assert largest <= 2 * 5000 + size
        assert len({(r.partition, r.offset) for r in seen}) == partitions * 5
        turns = [r.partition for r in seen]
        assert set(turns[: 2 * partitions]) == set(range(partitions)), (
            "no partition waits while others are returned twice"
        )


@pytest.mark.parametrize("jump", ["seek_to_end", "seek"])
def test_position_changed_between_polls_is_not_fetched(broker: ScriptedBroker, jump: str) -> None:
    fill(broker, 3)
    with consumer(broker, fetch_max_wait_ms=30_000) as c:
        c.assign([TP])
        assert c.partitions_for_topic("t") == {0}
        if jump == "seek":
            c.seek(TP, 3)
        else:
            c.seek_to_end(TP)
        assert c.position(TP) == 3
        assert c.end_offsets([TP]) == {TP: 3}
        c.seek(TP, 1)
        assert [r.offset for r in read(c, 2)] == [1, 2]


def test_paused_partition_does_not_block_fetches_of_others(broker: ScriptedBroker) -> None:
    broker.add_topic("t", 2)
    other = TopicPartition("t", 1)
    fill(broker, 50, partition=0)
    with consumer(broker, fetch_max_bytes=100, max_partition_fetch_bytes=100) as c:
        c.assign([TP, other])
        poll_until(c, lambda: c.position(TP) > 0 or c._core.buffer.has_records)
        c.pause(TP)
        fill(broker, 10, partition=1)
        assert len(read(c, 10)) == 10


@pytest.mark.option("check.crcs")
@pytest.mark.parametrize("checked", [True, False])
def test_corrupt_record_is_detected_if_check_crcs_is_enabled(broker: ScriptedBroker, checked: bool) -> None:
    data = bytearray(batch([b"a" * 50]))
    data[-8] ^= 1
    assign(data, 0, 0, 0)
    broker.topics["t"][0].append(bytes(data))
    with consumer(broker, check_crcs=checked) as c:
        c.assign([TP])
        if checked:
            with pytest.raises(CorruptMessageError, match="t-0, offset 0"):
                read(c, 1)
        else:
            assert len(read(c, 1)) == 1


@pytest.mark.option("isolation.level")
@pytest.mark.parametrize(("level", "expected"), [("read_committed", 1), ("read_uncommitted", 0)])
def test_isolation_level_is_sent_with_fetches_and_lookups(broker: ScriptedBroker, level: str, expected: int) -> None:
    with consumer(broker, isolation_level=level) as c:
        c.assign([TP])
        poll_until(c, lambda: bool(broker.requests_of(FetchRequest)))
        c.end_offsets([TP])
    assert {r.isolation_level for r in broker.requests_of(FetchRequest)} == {expected}
    assert {r.isolation_level for r in broker.requests_of(ListOffsetsRequest)} == {expected}


def test_position_of_a_newer_epoch_is_not_fetched_from_the_replaced_leader(
    pair: tuple[ScriptedBroker, ScriptedBroker],
) -> None:
    replaced, leader = pair
    fill(leader, 10)
    leader.leader_epoch = 3
    with consumer(replaced, retry_backoff_ms=5, retry_backoff_max_ms=20) as c:
        c.assign([TP])
        c.seek(TP, OffsetAndMetadata(15, "", 3))
        poll_until(c, lambda: len(replaced.requests_of(MetadataRequest)) + len(leader.requests_of(MetadataRequest)) > 4)
        assert not replaced.requests_of(FetchRequest), (
            "its log ends before the position: it would be reset to the beginning"
        )
        set_metadata(replaced, leader, leads=8, epoch=3)
        assert read(c, 1)[0].offset == 15
    assert not replaced.requests_of(OffsetForLeaderEpochRequest)


def test_commit_of_the_position_includes_its_leader_epoch(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    with consumer(broker, group_id="g", auto_offset_reset="earliest") as c:
        c.assign([TP])
        read(c, 10)
        for offset in (10, 9):
            c.commit({TP: offset})
    epochs = [r.topics[0].partitions[0].committed_leader_epoch for r in broker.requests_of(OffsetCommitRequest)[:2]]
    assert epochs == [0, -1], "the batches are of epoch 0"
