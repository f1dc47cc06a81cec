"""The accumulator of the producer: readiness, draining, retries, expiry and splitting of batches."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.backoff import ExponentialBackoff
from ottla.client.core.metadata import Cluster, PartitionInfo, TopicInfo
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.batch import ProducerBatch, Ready
from ottla.errors import NetworkError
from ottla.model import Node, TopicPartition
from ottla.protocol.fields import ZERO_UUID
from ottla.records.appender import RecordFuture
from ottla.records.builder import record_size_upper_bound
from ottla.records.decoder import records


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Fixture:
    """An accumulator for topic "t" whose partitions are all led by node 1."""

    def __init__(self, partitions: int = 1, **options: Any) -> None:
        self.clock = Clock()
        self.woken = 0
        settings: dict[str, Any] = {
            "batch_bytes": 1000,
            "memory_bytes": 100_000,
            "codec": 0,
            "level": None,
            "linger": 5.0,
            "backoff": ExponentialBackoff(0.1, 1.0),
        }
        self.accumulator = Accumulator(**{**settings, **options}, wake=self.wake, clock=self.clock)
        infos = tuple(PartitionInfo("t", i, 1, 0, (1,), (1,), ()) for i in range(partitions))
        topic = TopicInfo("t", ZERO_UUID, False, infos)
        self.cluster = Cluster({1: Node(1, "h", 1)}, {"t": topic})
        self.accumulator.topic("t").update(self.cluster, "t", 1)

    def wake(self) -> None:
        self.woken += 1

    def append(self, value: bytes, partition: int = 0) -> RecordFuture:
        queue = self.accumulator.topics["t"].queues[partition]
        record = Ready(queue, 5, None, value, None, record_size_upper_bound(0, len(value)))
        future = self.accumulator.append(record)
        if future is not None:
            return future
        buffer = self.accumulator.pool.try_allocate(self.accumulator.buffer_bytes(record))
        assert buffer is not None
        return self.accumulator.append_to_new(record, buffer)

    def is_ready(self) -> bool:
        return bool(self.accumulator.ready(self.cluster, self.clock.now).nodes)

    def drain(self, max_bytes: int = 1_000_000) -> list[ProducerBatch]:
        return self.accumulator.drain(self.cluster, 1, max_bytes, self.clock.now, lambda queue, batch: True)


def test_batch_is_ready_after_linger() -> None:
    f = Fixture()
    f.append(b"v")
    assert not f.is_ready()
    assert f.accumulator.ready(f.cluster, f.clock.now).next_check == 105.0
    f.clock.now += 5
    assert f.is_ready()
    assert [batch.count for batch in f.drain()] == [1]


def test_full_batch_is_ready_at_once_and_wakes_the_sender() -> None:
    f = Fixture()
    f.append(bytes(600))
    woken = f.woken
    f.append(bytes(600))
    assert f.woken > woken
    assert f.is_ready()
    assert [batch.count for batch in f.drain()] == [1]


def test_record_as_large_as_a_batch_is_alone_in_its_batch() -> None:
    f = Fixture(batch_bytes=100)
    f.append(bytes(40))
    f.append(b"")
    f.append(b"")
    assert [batch.count for _ in range(2) for batch in f.drain()] == [1]
    f.clock.now += 5
    assert [batch.count for batch in f.drain()] == [2]


def test_flush_close_and_exhausted_memory_make_batches_ready_at_once() -> None:
    for flag in ("flushing", "closing"):
        f = Fixture()
        f.append(b"v")
        setattr(f.accumulator, flag, True)
        assert f.is_ready()
    f = Fixture(memory_bytes=1000)
    f.append(b"v")
    assert not f.is_ready()
    f.accumulator.pool.wait(1000, lambda: None)
    assert f.is_ready()


def test_partition_without_a_leader_is_reported_as_leaderless() -> None:
    f = Fixture()
    f.append(b"v")
    f.clock.now += 5
    result = f.accumulator.ready(Cluster(), f.clock.now)
    assert (result.nodes, result.leaderless) == (set(), {"t"})


def test_drain_returns_one_batch_of_each_partition() -> None:
    f = Fixture(partitions=3)
    for partition in (0, 1, 2):
        f.append(bytes(600), partition)
        f.append(bytes(600), partition)
    assert [batch.tp.partition for batch in f.drain()] == [0, 1, 2]


def test_drain_with_small_requests_starves_no_partition() -> None:
    f = Fixture(partitions=4)
    served: list[int] = []
    for _ in range(8):
        for partition in range(4):
            f.append(bytes(600), partition)
            f.append(bytes(600), partition)
        served += [batch.tp.partition for batch in f.drain(max_bytes=1400)]
    assert {served.count(partition) for partition in range(4)} == {4}


def test_drain_returns_a_first_batch_larger_than_the_request() -> None:
    f = Fixture()
    f.append(bytes(5000))
    f.clock.now += 5
    assert len(f.drain(max_bytes=100)) == 1


def test_muted_partition_is_not_drained() -> None:
    f = Fixture()
    f.append(b"v")
    f.clock.now += 5
    f.accumulator.mute(TopicPartition("t", 0), True)
    assert not f.is_ready()
    assert f.drain() == []
    f.accumulator.mute(TopicPartition("t", 0), False)
    assert f.is_ready()


def mark_sent(batch: ProducerBatch, now: float) -> ProducerBatch:
    batch.finish(transactional=False)
    batch.attempts += 1
    batch.last_attempt = now
    return batch


def test_batch_in_backoff_is_not_drained_and_the_delay_doubles() -> None:
    f = Fixture()
    f.append(b"v")
    f.clock.now += 5
    for pause in (0.1, 0.2, 0.4):
        (batch,) = f.drain()
        f.accumulator.put_back(mark_sent(batch, f.clock.now))
        f.clock.now += pause * 0.9
        assert not f.is_ready()
        f.clock.now += pause * 0.11
        assert f.is_ready()


def test_requeued_batches_are_ordered_by_sequence() -> None:
    f = Fixture()
    batches = []
    for number in range(3):
        f.append(bytes(600))
        f.append(bytes(600))
        (batch,) = f.drain()
        batch.base_sequence = number
        batches.append(mark_sent(batch, f.clock.now))
    for number in (1, 2, 0):
        f.accumulator.put_back(batches[number])
    queue = f.accumulator.topics["t"].queues[0]
    assert [batch.base_sequence for batch in queue.batches][:4] == [0, 1, 2, -1]


def test_batch_expires_after_the_delivery_timeout() -> None:
    f = Fixture()
    f.append(b"v")
    f.clock.now += 119
    assert f.accumulator.expired(f.clock.now, 120) == ([], 220.0)
    f.clock.now += 1
    batches, next_expiry = f.accumulator.expired(f.clock.now, 120)
    assert (len(batches), next_expiry) == (1, f.clock.now + 120)
    assert f.accumulator.topics["t"].queues[0].open.closed


def test_completed_batches_release_their_memory() -> None:
    f = Fixture()
    f.append(b"v")
    f.append(bytes(5000))
    free = f.accumulator.pool.available
    assert free < 100_000 - 6000
    f.clock.now += 5
    while batches := f.drain():
        for batch in batches:
            f.accumulator.retire(mark_sent(batch, f.clock.now))
    assert f.accumulator.pool.available == 100_000
    assert list(f.accumulator.pending()) == []


def test_small_batch_in_flight_uses_only_memory_of_its_size() -> None:
    f = Fixture()
    future = f.append(b"v")
    f.clock.now += 5
    (batch,) = f.drain()
    mark_sent(batch, f.clock.now)
    assert batch.data is not None
    before = bytes(batch.data)
    f.accumulator.shrink(batch)
    assert f.accumulator.pool.available == 100_000 - len(before)
    f.append(b"other")
    assert bytes(batch.data) == before, "the buffer belongs to another batch now"
    f.accumulator.retire(batch)
    assert f.accumulator.pool.available == 100_000 - 1000
    assert not future.done()


@pytest.mark.parametrize("codec", [0, 1])
def test_split_batch_keeps_records_order_and_futures(codec: int) -> None:
    f = Fixture(codec=codec)
    futures = [f.append(b"%d" % i) for i in range(5)]
    f.clock.now += 5
    (batch,) = f.drain()
    parts = f.accumulator.split(mark_sent(batch, f.clock.now))
    for part in reversed(parts):
        f.accumulator.put_back(part)
    assert [part.count for part in f.accumulator.topics["t"].queues[0].batches] == [3, 2]
    offset = 50
    for part in parts:
        part.finish(transactional=False)
        assert part.data is not None
        assert [r.value for r in records(part.data)] == [b"%d" % (offset - 50 + i) for i in range(part.count)]
        part.outcome.complete(offset, -1)
        offset += part.count
    assert [future.get(0).offset for future in futures] == [50, 51, 52, 53, 54]


def test_failed_part_of_a_split_batch_fails_only_its_records() -> None:
    f = Fixture()
    futures = [f.append(b"%d" % i) for i in range(2)]
    f.clock.now += 5
    (batch,) = f.drain()
    first, second = f.accumulator.split(mark_sent(batch, f.clock.now))
    first.outcome.complete(7, -1)
    assert not futures[0].done(), "the futures complete when all parts have completed"
    second.outcome.complete(-1, -1, NetworkError())
    assert futures[0].get(0).offset == 7
    assert isinstance(futures[1].exception(0), NetworkError)


def test_abort_removes_all_batches() -> None:
    f = Fixture(partitions=2)
    f.append(b"v", 0)
    f.append(b"v", 1)
    assert len(f.accumulator.abort()) == 2
    assert not f.is_ready()
