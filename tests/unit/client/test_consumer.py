"""The consumer with a scripted broker: fetching, offsets, groups and closing."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.client.consuming import TP, Listener, batch, consumer, fill, poll_until, read
from tests.unit.client.keyboard import ctrl_c
from tests.unit.client.scripted import DROP, SILENCE, ScriptedBroker

from ottla import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition, aio
from ottla.client.consumer.core import ConsumerCore
from ottla.client.consumer.fetch import fetch_buffer
from ottla.client.consumer.group import classic_membership
from ottla.errors import (
    CommitFailedError,
    ConfigurationError,
    CorruptMessageError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLargeError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    SerializationError,
    WakeupError,
)
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.list_offsets import ListOffsetsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.records import legacy_message_set
from ottla.records.batch import assign
from ottla.records.builder import BatchBuilder

# Reading


def test_assigned_partitions_are_read_from_the_beginning(broker: ScriptedBroker) -> None:
    fill(broker, 25)
    with consumer(broker) as c:
        c.assign([TP])
        result = read(c, 25)
        assert [r.offset for r in result] == list(range(25))
        assert c.position(TP) == 25
    first = result[0]
    assert (first.topic, first.partition, first.key, first.value) == ("t", 0, b"k", b"0")
    assert (first.timestamp, first.timestamp_type, first.headers) == (1000, 0, [("h", b"x")])
    assert (first.serialized_key_size, first.serialized_value_size, first.leader_epoch) == (1, 1, 0)


def test_records_arrive_while_poll_waits(broker: ScriptedBroker) -> None:
    with consumer(broker) as c:
        c.assign([TP])
        assert c.poll(timeout_ms=50) == {}
        threading.Timer(0.1, fill, (broker, 3)).start()
        assert len(read(c, 3)) == 3


def test_max_poll_records_limits_a_poll_and_no_record_is_lost(broker: ScriptedBroker) -> None:
    fill(broker, 30)
    with consumer(broker, max_poll_records=7) as c:
        c.assign([TP])
        sizes: list[int] = []
        offsets: list[int] = []
        while len(offsets) < 30:
            rows = c.poll(timeout_ms=500).get(TP, [])
            sizes.append(len(rows))
            offsets += [r.offset for r in rows]
    assert max(sizes) <= 7
    assert offsets == list(range(30))


def test_iteration_advances_the_position_record_by_record(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    with consumer(broker) as c:
        c.assign([TP])
        assert [next(c).offset for _ in range(3)] == [0, 1, 2]
        assert c.position(TP) == 3
        assert [next(c).offset for _ in range(7)] == list(range(3, 10))
        assert c.position(TP) == 10


def test_poll_during_an_iteration_continues_after_its_last_record(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    with consumer(broker) as c:
        c.assign([TP])
        assert next(c).offset == 0
        assert [r.offset for r in read(c, 9)] == list(range(1, 10))


def test_seek_moves_the_position_and_drops_fetched_records(broker: ScriptedBroker) -> None:
    fill(broker, 40)
    with consumer(broker, max_poll_records=5) as c:
        c.assign([TP])
        read(c, 5)
        c.seek(TP, 33)
        assert next(c).offset == 33
        c.seek_to_beginning(TP)
        assert c.position(TP) == 0
        c.seek_to_end()
        assert c.position(TP) == 40
        with pytest.raises(IllegalStateError, match="t-9"):
            c.seek(TopicPartition("t", 9), 0)


def test_seek_discards_a_fetch_that_has_not_started(broker: ScriptedBroker) -> None:
    fill(broker, 10)

    async def first_value() -> bytes:
        options: dict[str, Any] = {"retry_backoff_ms": 10, "fetch_max_wait_ms": 50}
        async with aio.KafkaConsumer(bootstrap_servers=broker.address, **options) as c:
            c.assign([TP])
            await c.partitions_for_topic("t")
            c.seek(TP, 5)  # requests a fetch, whose task starts when this one awaits
            c.seek(TP, 0)
            while not (result := await c.poll(timeout_ms=1000)):
                pass
            value: bytes = result[TP][0].value
            return value

    assert asyncio.run(first_value()) == b"0"


def test_paused_partition_returns_no_records_and_loses_none(broker: ScriptedBroker) -> None:
    broker.add_topic("t", 2)
    fill(broker, 10, partition=0)
    fill(broker, 10, partition=1)
    other = TopicPartition("t", 1)
    with consumer(broker, max_poll_records=3) as c:
        c.assign([TP, other])
        c.poll(timeout_ms=1000)
        c.pause(TP)
        assert c.paused() == {TP}
        seen = c.position(TP)
        while c.position(other) < 10:
            assert TP not in c.poll(timeout_ms=500)
        c.resume(TP)
        assert [r.offset for r in read(c, 10 - seen)] == list(range(seen, 10))


def test_deserialization_error_names_partition_and_offset(broker: ScriptedBroker) -> None:
    broker.put("t", 0, batch([b"1", b"2", b"x", b"4"]))
    with consumer(broker, value_deserializer=int) as c:
        c.assign([TP])
        assert [r.value for r in read(c, 2)] == [1, 2]
        with pytest.raises(SerializationError, match="t-0, offset 2"):
            c.poll(timeout_ms=500)
        c.seek(TP, 3)
        assert [r.value for r in read(c, 1)] == [4]


def test_corrupt_batch_raises_an_error_with_partition_and_offset(broker: ScriptedBroker) -> None:
    data = bytearray(batch([b"a" * 50]))
    data[-5] ^= 1
    broker.topics["t"][0].append(bytes(data))
    with consumer(broker) as c:
        c.assign([TP])
        with pytest.raises(CorruptMessageError, match="t-0, offset 0"):
            read(c, 1)


@pytest.mark.parametrize("columns", [False, True])
def test_corrupt_batch_is_not_skipped_unless_the_consumer_seeks(broker: ScriptedBroker, columns: bool) -> None:
    fill(broker, 40)
    data = bytearray(broker.topics["t"][0][2])
    data[-5] ^= 1
    broker.topics["t"][0][2] = bytes(data)

    def offsets(c: KafkaConsumer) -> list[int]:
        if columns:
            return list(c.poll_batch(timeout_ms=5000)[TP].offsets)
        return [record.offset for record in read(c, 10)]

    with consumer(broker) as c:
        c.assign([TP])
        intact: list[int] = []
        while len(intact) < 20:
            intact += offsets(c)
        assert intact == list(range(20))
        for _ in range(2):
            with pytest.raises(CorruptMessageError, match="t-0, offset 20"):
                offsets(c)
            assert c.position(TP) == 20
        c.seek(TP, 30)
        assert offsets(c) == list(range(30, 40))


def test_poll_batch_returns_columns(broker: ScriptedBroker) -> None:
    broker.put("t", 0, batch([b"a", None, b"ccc"]))
    with consumer(broker) as c:
        c.assign([TP])
        columns = c.poll_batch(timeout_ms=5000)[TP]
        assert (columns.rows, list(columns.offsets), list(columns.timestamps)) == (3, [0, 1, 2], [1000, 1001, 1002])
        assert [columns.values.get(i) for i in range(3)] == [b"a", None, b"ccc"]
        assert c.position(TP) == 3


def test_columns_convert_to_an_arrow_record_batch(broker: ScriptedBroker) -> None:
    pytest.importorskip("pyarrow")
    broker.put("t", 0, batch([b"a", None, b"ccc"]))
    with consumer(broker) as c:
        c.assign([TP])
        columns = c.poll_batch(timeout_ms=5000, headers=True)[TP]
    table = columns.to_arrow()
    assert table.column_names == ["offset", "timestamp", "timestamp_type", "key", "value", "headers"]
    assert table["value"].to_pylist() == [b"a", None, b"ccc"]
    assert table["headers"].to_pylist() == [[{"key": "h", "value": b"x"}]] * 3
    assert [moment.timestamp() for moment in table["timestamp"].to_pylist()] == [1.0, 1.001, 1.002]


def test_columns_convert_to_pyarrow_and_polars(broker: ScriptedBroker) -> None:
    pa = pytest.importorskip("pyarrow")
    broker.put("t", 0, batch([b"a", None, b"ccc"]))
    with consumer(broker) as c:
        c.assign([TP])
        columns = c.poll_batch(timeout_ms=5000)[TP]
    assert pa.table(columns) == pa.Table.from_batches([columns.to_arrow()])
    assert pa.record_batch(columns) == columns.to_arrow()
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(columns)["value"].to_list() == [b"a", None, b"ccc"]


def test_poll_batch_ends_at_the_requested_offset(broker: ScriptedBroker) -> None:
    fill(broker, 30)
    with consumer(broker) as c:
        c.assign([TP])
        assert list(c.poll_batch(timeout_ms=5000, until={TP: 15})[TP].offsets) == list(range(15))
        assert c.position(TP) == 15
        assert c.poll_batch(timeout_ms=50, until={TP: 15}) == {}
        assert list(c.poll_batch(timeout_ms=5000, until={TP: 20})[TP].offsets) == list(range(15, 20))
        assert list(c.poll_batch(timeout_ms=5000, until={TP: 22})[TP].offsets) == [20, 21]
        assert c.poll_batch(timeout_ms=50, until={TP: 5}) == {}
        assert c.position(TP) == 22
        assert [r.offset for r in read(c, 8)] == list(range(22, 30))


def test_poll_batch_waits_for_a_partition_while_another_one_has_reached_its_end(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.add_topic("t", 2)
    fill(broker, 10)
    other = TopicPartition("t", 1)
    calls: list[float] = []
    prepare = ConsumerCore.prepare

    def counted(core: ConsumerCore, timeout: float) -> Any:
        calls.append(timeout)
        return prepare(core, timeout)

    monkeypatch.setattr(ConsumerCore, "prepare", counted)
    with consumer(broker, fetch_max_bytes=1) as c:
        c.assign([TP, other])
        assert list(c.poll_batch(timeout_ms=5000, until={TP: 5})[TP].offsets) == list(range(5))
        calls.clear()
        assert c.poll_batch(timeout_ms=200, until={TP: 5}) == {}
        assert len(calls) < 5, "the records after the end must not keep the call busy"
        fill(broker, 10, partition=1)
        assert set(c.poll_batch(timeout_ms=5000, until={TP: 5})) == {other}, "nor do they fill the buffer"


def test_unreadable_batch_does_not_lose_records_of_a_paused_partition(broker: ScriptedBroker) -> None:
    broker.add_topic("t", 2)
    data = bytearray(batch([b"a" * 50]))
    data[-5] ^= 1
    broker.topics["t"][1].append(bytes(data))
    fill(broker, 10)
    with consumer(broker) as c:
        c.assign([TP, TopicPartition("t", 1)])
        c.pause(TopicPartition("t", 1))
        assert TP in c.poll_batch(timeout_ms=5000, until={TP: 5})
        c.pause(TP)
        c.resume(TopicPartition("t", 1))
        with pytest.raises(CorruptMessageError):
            c.poll_batch(timeout_ms=5000)
        c.resume(TP)
        c.pause(TopicPartition("t", 1))
        assert [r.offset for r in read(c, 5)] == list(range(5, 10))


def test_poll_batch_returns_a_large_decompressed_fetch_in_pieces(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_buffer, "COLUMN_BYTES", 15)
    fill(broker, 60)
    with consumer(broker) as c:
        c.assign([TP])
        for first in (0, 10):
            assert list(c.poll_batch(timeout_ms=5000)[TP].offsets) == list(range(first, first + 10))
            assert c.position(TP) == first + 10
        assert [r.offset for r in c.poll(timeout_ms=5000, max_records=5)[TP]] == list(range(20, 25))
        assert list(c.poll_batch(timeout_ms=5000)[TP].offsets) == list(range(25, 30)), "the rest of a batch"
        assert list(c.poll_batch(timeout_ms=5000, until={TP: 35})[TP].offsets) == list(range(30, 35))
        c.seek(TP, 45)
        assert list(c.poll_batch(timeout_ms=5000)[TP].offsets) == list(range(45, 50))


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_of_magic_0_and_1_are_read(broker: ScriptedBroker, magic: int) -> None:
    times = [-1, -1, -1] if magic == 0 else [1000, 1001, 1002]
    old = b"".join(
        legacy_message_set.encode(offset, times[offset], b"k", value, magic)
        for offset, value in enumerate([b"a", None, b"c"])
    )
    new = bytearray(batch([b"d"]))
    assign(new, 0, 3, 0)

    def respond(request: FetchRequest) -> FetchResponse | None:
        if request.topics and request.topics[0].partitions[0].fetch_offset < 4:
            data = PartitionData(high_watermark=4, last_stable_offset=4, records=old + new + new[:20])
            return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])
        return FetchResponse()

    broker.on(FetchRequest, respond, times=10_000)
    with consumer(broker) as c:
        c.assign([TP])
        result = read(c, 4)
        assert [(r.offset, r.value) for r in result] == [(0, b"a"), (1, None), (2, b"c"), (3, b"d")]
        assert [r.timestamp for r in result][:3] == times
        c.seek(TP, 1)
        assert [list(c.poll_batch(timeout_ms=5000)[TP].offsets)] == [[1, 2, 3]]


def test_message_truncated_by_an_old_broker_raises_message_too_large(broker: ScriptedBroker) -> None:
    def respond(request: FetchRequest) -> FetchResponse:
        cut = legacy_message_set.encode(0, 5, b"k", bytes(5000), 1)[:1000]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(records=cut)])])

    broker.on(FetchRequest, respond, times=100)
    with consumer(broker, max_partition_fetch_bytes=1000) as c:
        c.assign([TP])
        c.seek(TP, 0)
        with pytest.raises(MessageTooLargeError, match=r"t-0, offset 0: .*max\.partition\.fetch\.bytes"):
            read(c, 1)


def test_read_committed_skips_aborted_transactions_and_markers(broker: ScriptedBroker) -> None:
    def marker(producer_id: int, kind: int) -> bytes:
        builder = BatchBuilder(bytearray(200))
        builder.append(0, b"\0\0" + kind.to_bytes(2, "big"), b"\0\0\0\0\0\0", None)
        return bytes(builder.close(producer_id, 0, -1, transactional=True, control=True))

    broker.put("t", 0, batch([b"bad"], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True))
    broker.put("t", 0, batch([b"good"], producer_id=2, producer_epoch=0, base_sequence=0, transactional=True))
    broker.put("t", 0, marker(1, 0))
    broker.put("t", 0, marker(2, 1))
    broker.put("t", 0, batch([b"later"], producer_id=1, producer_epoch=0, base_sequence=1, transactional=True))
    broker.put("t", 0, marker(1, 1))

    def with_aborted(request: FetchRequest) -> FetchResponse | None:
        assert request.isolation_level == 1
        if request.topics and request.topics[0].partitions[0].fetch_offset == 0:
            data = PartitionData(
                high_watermark=6,
                last_stable_offset=6,
                aborted_transactions=[AbortedTransaction(producer_id=1, first_offset=0)],
                records=b"".join(broker.topics["t"][0]),
            )
            return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])
        return None

    broker.on(FetchRequest, with_aborted, times=1000)
    with consumer(broker, isolation_level="read_committed") as c:
        c.assign([TP])
        assert [r.value for r in read(c, 2)] == [b"good", b"later"]
        poll_until(c, lambda: c.position(TP) == 6)


# Start position


def test_partition_without_an_offset_is_reset_by_the_policy(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    with consumer(broker, auto_offset_reset="latest") as c:
        c.assign([TP])
        assert c.position(TP) == 10
    with consumer(broker, auto_offset_reset="none", group_id="g") as c:
        c.assign([TP])
        with pytest.raises(NoOffsetForPartitionError, match="t-0"):
            c.poll(timeout_ms=5000)


def test_consumer_starts_at_the_committed_offset(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    broker.committed[("t", 0)] = (4, "note")
    with consumer(broker, group_id="g") as c:
        c.assign([TP])
        assert [r.offset for r in read(c, 6)] == list(range(4, 10))
        assert c.committed(TP) == 4
        assert c.committed(TP, metadata=True) == OffsetAndMetadata(4, "note", -1)


def test_offset_out_of_range_is_reset_by_the_policy(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    with consumer(broker) as c:
        c.assign([TP])
        c.seek(TP, 500)
        assert read(c, 1)[0].offset == 0
    with consumer(broker, auto_offset_reset="none") as c:
        c.assign([TP])
        c.seek(TP, 500)
        with pytest.raises(OffsetOutOfRangeError, match="t-0: offset 500"):
            c.poll(timeout_ms=5000)


def test_consumer_looks_up_offsets_and_topics(broker: ScriptedBroker) -> None:
    fill(broker, 20)
    with consumer(broker) as c:
        assert c.beginning_offsets([TP]) == {TP: 0}
        assert c.end_offsets([TP]) == {TP: 20}
        result = c.offsets_for_times({TP: 1005})[TP]
        assert result is not None
        assert result.offset == 0
        assert c.offsets_for_times({TP: 10**9}) == {TP: None}
        assert c.partitions_for_topic("t") == {0}
        assert "t" in c.topics()


def test_end_offsets_ends_after_timeout_ms(broker: ScriptedBroker) -> None:
    with consumer(broker) as c:
        with pytest.raises(KafkaTimeoutError, match="nowhere-0"):
            c.end_offsets([TopicPartition("nowhere", 0)], timeout_ms=100)


# Lost connections, leader changes, fetch sessions


def test_lost_connection_is_reopened(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    with consumer(broker) as c:
        c.assign([TP])
        read(c, 10)
        broker.cut()
        broker.put("t", 0, batch([b"after"]))
        assert read(c, 1)[0].value == b"after"


def test_fetch_continues_after_a_leader_change(broker: ScriptedBroker) -> None:
    fill(broker, 10)

    def not_leader(request: FetchRequest) -> FetchResponse:
        data = PartitionData(partition_index=0, error_code=6, high_watermark=-1)
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])

    broker.on(FetchRequest, not_leader, times=2)
    with consumer(broker) as c:
        c.assign([TP])
        assert len(read(c, 10)) == 10


def test_lost_fetch_session_restarts(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    broker.on(FetchRequest, lambda _: FetchResponse(error_code=70))
    with consumer(broker) as c:
        c.assign([TP])
        assert len(read(c, 10)) == 10


def test_fetch_session_requests_contain_only_changed_partitions(broker: ScriptedBroker) -> None:
    broker.add_topic("t", 2)
    requests: list[FetchRequest] = []

    def session(request: FetchRequest) -> FetchResponse | None:
        requests.append(request)
        if request.session_epoch == 0:
            parts = [broker._fetch_partition("t", p) for p in request.topics[0].partitions]
            return FetchResponse(session_id=5, responses=[FetchableTopicResponse(topic="t", partitions=parts)])
        time.sleep(0.01)
        return FetchResponse(session_id=5)

    broker.on(FetchRequest, session, times=10_000)
    with consumer(broker) as c:
        c.assign([TP, TopicPartition("t", 1)])
        poll_until(c, lambda: len(requests) >= 4)
        c.pause(TP)
        poll_until(c, lambda: any(a.forgotten_topics_data for a in requests))
    assert [len(a.topics) for a in requests[:3]] == [1, 0, 0]
    assert [a.session_epoch for a in requests[:3]] == [0, 1, 2]
    removed = next(a for a in requests if a.forgotten_topics_data)
    assert removed.forgotten_topics_data[0].partitions == [0]


# Groups


def test_subscription_joins_the_group_and_calls_the_listener_in_the_polling_thread(broker: ScriptedBroker) -> None:
    broker.add_topic("t", 2)
    listener = Listener()
    with consumer(broker, group_id="g") as c:
        c.subscribe(["t"], listener=listener)
        poll_until(c, lambda: len(c.assignment()) == 2)
        assert c.subscription() == {"t"}
    assert listener.calls == [("assigned", [0, 1], True), ("revoked", [0, 1], True)]
    assert broker.requests_of(LeaveGroupRequest)


def test_rebalance_listener_may_use_the_consumer(broker: ScriptedBroker) -> None:
    fill(broker, 10)

    class Seeker(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            for tp in assigned:
                c.seek(tp, 7)
                assert c.position(tp) == 7

    with consumer(broker, group_id="g") as c:
        c.subscribe(["t"], listener=Seeker())
        assert [r.offset for r in read(c, 3)] == [7, 8, 9]


def test_error_of_the_rebalance_listener_is_raised_by_poll(broker: ScriptedBroker) -> None:
    class Bad(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            raise RuntimeError("the listener's own")

    with consumer(broker, group_id="g") as c:
        c.subscribe(["t"], listener=Bad())
        with pytest.raises(KafkaError, match="the listener's own") as raised:
            poll_until(c, lambda: False)
        assert isinstance(raised.value.__cause__, RuntimeError)
        assert c.assignment() == {TP}, "the rebalance completes nevertheless, as in Java"


def test_rebalance_in_progress_in_a_heartbeat_makes_the_next_poll_rejoin(broker: ScriptedBroker) -> None:
    listener = Listener()
    broker.on(HeartbeatRequest, lambda _: HeartbeatResponse(error_code=27))
    with consumer(broker, group_id="g", heartbeat_interval_ms=20) as c:
        c.subscribe(["t"], listener=listener)
        poll_until(c, lambda: len(broker.requests_of(JoinGroupRequest)) == 2)
        poll_until(c, lambda: len(listener.calls) == 3)
    assert [kind for kind, _, _ in listener.calls[:3]] == ["assigned", "revoked", "assigned"]


def test_unknown_member_loses_its_partitions_and_rejoins_without_its_id(
    broker: ScriptedBroker,
) -> None:
    listener = Listener()
    broker.on(HeartbeatRequest, lambda _: HeartbeatResponse(error_code=25))
    with consumer(broker, group_id="g", heartbeat_interval_ms=20) as c:
        c.subscribe(["t"], listener=listener)
        poll_until(c, lambda: len(listener.calls) == 3)
    assert [kind for kind, _, _ in listener.calls[:3]] == ["assigned", "lost", "assigned"]
    assert [r.member_id for r in broker.requests_of(JoinGroupRequest)][:2] == ["", ""]


def test_member_id_required_makes_a_new_member_join_twice(broker: ScriptedBroker) -> None:
    broker.on(JoinGroupRequest, lambda _: JoinGroupResponse(error_code=79, member_id="given"))
    with consumer(broker, group_id="g") as c:
        c.subscribe(["t"])
        poll_until(c, lambda: bool(c.assignment()))
    assert [r.member_id for r in broker.requests_of(JoinGroupRequest)] == ["", "given"]


def test_join_that_waits_for_other_members_is_logged_once(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(classic_membership, "SLOW_JOIN_SECONDS", 0.05)
    caplog.set_level(logging.INFO, "ottla.client")
    broker.on(JoinGroupRequest, lambda _: SILENCE)
    with consumer(broker, "t", group_id="g") as c:
        poll_until(c, lambda: "group g: waiting for the other members to rejoin" in caplog.text)
        c.poll(timeout_ms=150)
    assert caplog.text.count("waiting for the other members") == 1


def test_poll_returns_at_its_timeout_during_a_join(broker: ScriptedBroker) -> None:
    gate = threading.Event()
    broker.on(JoinGroupRequest, lambda _: gate.wait(0.5) and None)
    with consumer(broker, group_id="g") as c:
        c.subscribe(["t"])
        c.topics()
        begin = time.monotonic()
        assert c.poll(timeout_ms=50) == {}
        assert time.monotonic() - begin < 0.4
        gate.set()
        poll_until(c, lambda: bool(c.assignment()))
    assert len(broker.requests_of(JoinGroupRequest)) == 1


def test_close_does_not_wait_for_a_join(broker: ScriptedBroker) -> None:
    broker.on(JoinGroupRequest, lambda _: JoinGroupResponse(error_code=79, member_id="given"))
    broker.on(JoinGroupRequest, lambda _: SILENCE)
    c = consumer(broker, group_id="g")
    c.subscribe(["t"])
    poll_until(c, lambda: len(broker.requests_of(JoinGroupRequest)) == 2)
    begin = time.monotonic()
    c.close()
    assert time.monotonic() - begin < 2
    assert [m.member_id for r in broker.requests_of(LeaveGroupRequest) for m in r.members] == ["given"]


def test_static_member_does_not_leave_on_close(broker: ScriptedBroker) -> None:
    with consumer(broker, group_id="g", group_instance_id="me") as c:
        c.subscribe(["t"])
        poll_until(c, lambda: bool(c.assignment()))
    assert broker.requests_of(JoinGroupRequest)[0].group_instance_id == "me"
    assert not broker.requests_of(LeaveGroupRequest)


def test_commit_stores_positions_or_explicit_offsets(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    with consumer(broker, "t", group_id="g", enable_auto_commit=False) as c:
        read(c, 10)
        c.commit()
        assert broker.committed[("t", 0)] == (10, "")
        c.commit({TP: OffsetAndMetadata(3, "text")})
        assert broker.committed[("t", 0)] == (3, "text")
    assert broker.committed[("t", 0)] == (3, "text"), "without auto commit, close() commits nothing"


def test_commit_async_calls_back_in_a_later_poll(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    output: list[Any] = []
    with consumer(broker, "t", group_id="g") as c:
        read(c, 10)
        c.commit_async(callback=lambda offsets, error: output.append((offsets, error, threading.current_thread())))
        poll_until(c, lambda: bool(output))
    ((offsets, error, thread),) = output
    assert offsets == {TP: OffsetAndMetadata(10, "", 0)}
    assert error is None
    assert thread is threading.main_thread()


def test_auto_commit_runs_at_its_interval_and_at_close(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    with consumer(broker, "t", group_id="g", auto_commit_interval_ms=50) as c:
        read(c, 10)
        poll_until(c, lambda: broker.committed.get(("t", 0)) == (10, ""))
        fill(broker, 5)
        read(c, 5)
    assert broker.committed[("t", 0)] == (15, "")


def test_commit_with_an_illegal_generation_fails(broker: ScriptedBroker) -> None:
    def illegal_generation(request: OffsetCommitRequest) -> OffsetCommitResponse:
        part = OffsetCommitResponsePartition(partition_index=0, error_code=22)
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[part])])

    fill(broker, 10)
    with consumer(broker, "t", group_id="g", enable_auto_commit=False) as c:
        read(c, 10)
        broker.on(OffsetCommitRequest, illegal_generation)
        with pytest.raises(CommitFailedError, match="t-0"):
            c.commit()


def test_commit_is_retried_after_a_lost_connection(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    with consumer(broker, "t", group_id="g", enable_auto_commit=False) as c:
        read(c, 10)
        broker.on(OffsetCommitRequest, lambda _: DROP)
        c.commit()
    assert broker.committed[("t", 0)] == (10, "")


def test_pattern_subscription_includes_topics_created_later(broker: ScriptedBroker) -> None:
    with consumer(broker, group_id="g", metadata_max_age_ms=50) as c:
        c.subscribe(pattern="^t")
        poll_until(c, lambda: c.assignment() == {TP})
        broker.add_topic("tea")
        poll_until(c, lambda: TopicPartition("tea", 0) in c.assignment())


def test_new_partitions_make_the_group_leader_trigger_a_rebalance(broker: ScriptedBroker) -> None:
    with consumer(broker, "t", group_id="g", metadata_max_age_ms=50) as c:
        poll_until(c, lambda: len(c.assignment()) == 1)
        broker.topics["t"].append([])
        poll_until(c, lambda: len(c.assignment()) == 2)


def test_subscription_without_a_group_reads_all_partitions(broker: ScriptedBroker) -> None:
    broker.add_topic("t", 2)
    fill(broker, 5, partition=0)
    fill(broker, 5, partition=1)
    with consumer(broker, "t") as c:
        assert len(read(c, 10)) == 10
    assert not broker.requests_of(JoinGroupRequest)


def test_subscribe_and_assign_are_mutually_exclusive(broker: ScriptedBroker) -> None:
    with consumer(broker, group_id="g") as c:
        c.subscribe(["t"])
        with pytest.raises(IllegalStateError, match="unsubscribe"):
            c.assign([TP])
        c.unsubscribe()
        c.assign([TP])
        with pytest.raises(IllegalStateError, match="unsubscribe"):
            c.subscribe(["t"])


async def test_asynchronous_consumer_may_subscribe_after_an_empty_assignment(broker: ScriptedBroker) -> None:
    async with aio.KafkaConsumer(bootstrap_servers=broker.address) as c:
        c.assign([TP])
        c.assign([])
        assert not c.assignment()
        c.subscribe(["t"])
        with pytest.raises(IllegalStateError, match="unsubscribe"):
            c.subscribe()


def test_commit_without_a_group_raises_illegal_state(broker: ScriptedBroker) -> None:
    with consumer(broker) as c, pytest.raises(IllegalStateError, match="group_id"):
        c.commit()


# Closing, interruption, threads


@pytest.mark.usefixtures("no_leaks")
def test_close_leaves_no_thread_and_no_descriptor() -> None:
    with ScriptedBroker() as broker:
        broker.add_topic("t")
        fill(broker, 10)
        c = consumer(broker, "t", group_id="g")
        read(c, 10)
        c.close()
        c.close()
        with pytest.raises(IllegalStateError, match="closed"):
            c.poll()


def test_ctrl_c_interrupts_a_waiting_poll(broker: ScriptedBroker) -> None:
    with consumer(broker) as c:
        c.assign([TP])
        c.poll(timeout_ms=50)
        with ctrl_c(within=5):
            c.poll(timeout_ms=60_000)
        fill(broker, 3)
        assert len(read(c, 3)) == 3


def test_poll_in_a_forked_child_raises_illegal_state(broker: ScriptedBroker) -> None:
    with consumer(broker) as c:
        c.assign([TP])
        child = os.fork()
        if child == 0:
            try:
                c.poll()
            except IllegalStateError as error:
                os._exit(0 if "fork" in str(error) else 2)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_calls_of_a_second_thread_are_rejected_except_wakeup(broker: ScriptedBroker) -> None:
    inside, leave = threading.Event(), threading.Event()

    def deserialize(value: bytes) -> bytes:
        inside.set()
        leave.wait(10)
        return value

    fill(broker, 10)
    results: list[Any] = []
    with consumer(broker, group_id="g", value_deserializer=deserialize) as c:
        c.assign([TP])
        polling = threading.Thread(target=lambda: results.extend(read(c, 10)))
        polling.start()
        assert inside.wait(10)
        calls: list[Callable[[], object]] = [
            c.poll,
            c.poll_batch,
            lambda: next(c),
            lambda: c.seek(TP, 0),
            c.commit,
            lambda: c.assign([]),
            lambda: c.subscribe(["t"]),
            c.close,
        ]
        for call in calls:
            with pytest.raises(IllegalStateError, match="another thread"):
                call()
        assert c.assignment() == {TP}
        leave.set()
        polling.join()
        assert [record.offset for record in results] == list(range(10))
        c.seek(TP, 3)  # the other thread has left
        c.wakeup()
        with pytest.raises(WakeupError):
            c.poll(timeout_ms=10_000)


def test_rebalance_listener_may_close_the_consumer(broker: ScriptedBroker) -> None:
    class Closing(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            c.close()

    c = consumer(broker, group_id="g")
    c.subscribe(["t"], listener=Closing())
    with pytest.raises(IllegalStateError, match="closed"):
        poll_until(c, lambda: False)


def test_invalid_options_are_rejected_with_their_names(broker: ScriptedBroker) -> None:
    with pytest.raises(ConfigurationError, match=r"auto\.offset\.reset.*latest, earliest, none"):
        consumer(broker, auto_offset_reset="first")
    with pytest.raises(ConfigurationError, match=r"heartbeat\.interval\.ms"):
        consumer(broker, heartbeat_interval_ms=9000, session_timeout_ms=9000)
    with pytest.raises(TypeError, match=r"group.*group_id"):
        consumer(broker, groupid="g")


def test_consumer_reads_from_a_broker_with_old_api_versions() -> None:
    with ScriptedBroker(max_versions={"ListOffsets": 1, "Fetch": 4, "Metadata": 1, "ApiVersions": 0}) as broker:
        broker.add_topic("t")
        fill(broker, 10)
        with consumer(broker) as c:
            c.assign([TP])
            assert len(read(c, 10)) == 10
        assert {h.api_version for r, h in zip(broker.requests, broker.headers, strict=True) if r.NAME == "Fetch"} == {4}
        assert broker.requests_of(ListOffsetsRequest)
