"""Producer ids, epochs and sequences of an idempotent producer."""

from __future__ import annotations

import asyncio
import logging

import pytest

from ottla.client.producer.batch import ProducerBatch
from ottla.client.producer.transaction_manager import MAX_EPOCH, TransactionManager
from ottla.errors import ClusterAuthorizationFailedError, OutOfOrderSequenceNumberError, UnknownProducerIdError
from ottla.model import TopicPartition
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.records.batch import read_header, verify
from ottla.records.builder import BatchBuilder

TP = TopicPartition("t", 0)


class Coordinator:
    def __init__(self) -> None:
        self.next_id = 500
        self.error_code = 0

    async def __call__(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        self.next_id += 1
        return InitProducerIdResponse(error_code=self.error_code, producer_id=self.next_id, producer_epoch=0)


def manager() -> TransactionManager:
    manager = TransactionManager(Coordinator())
    asyncio.run(manager.get_producer_id())
    return manager


def batch(count: int = 1, tp: TopicPartition = TP) -> ProducerBatch:
    builder = BatchBuilder(bytearray(1000))
    for _ in range(count):
        builder.append(0, None, b"v", None)
    return ProducerBatch(tp, builder, None, 0.0)


def send_batches(m: TransactionManager, *counts: int) -> list[ProducerBatch]:
    batches = [batch(count) for count in counts]
    for one in batches:
        assert m.may_send(one)
        m.number(one)
        one.finish(transactional=False)
    return batches


def batch_identity(b: ProducerBatch) -> tuple[int, int, int]:
    assert b.data is not None
    header = read_header(b.data)
    verify(b.data, 0, header)
    return header.producer_id, header.producer_epoch, header.base_sequence


def test_batch_is_not_sent_without_a_producer_id() -> None:
    assert not TransactionManager(Coordinator()).may_send(batch())


def test_init_producer_id_error_is_raised() -> None:
    coordinator = Coordinator()
    coordinator.error_code = 31
    with pytest.raises(ClusterAuthorizationFailedError):
        asyncio.run(TransactionManager(coordinator).get_producer_id())


def test_sequences_count_records_without_gaps() -> None:
    assert [batch_identity(b) for b in send_batches(manager(), 3, 2, 1)] == [(501, 0, 0), (501, 0, 3), (501, 0, 5)]


def test_at_most_five_batches_of_a_partition_are_in_flight() -> None:
    m = manager()
    first, *_ = send_batches(m, 1, 1, 1, 1, 1)
    assert not m.may_send(batch())
    m.acknowledged(first)
    assert m.may_send(batch())


def test_retried_batch_keeps_its_sequence_and_waits_for_earlier_batches() -> None:
    m = manager()
    first, second = send_batches(m, 1, 1)
    assert m.may_send(first)
    assert not m.may_send(second)
    m.number(first)
    assert batch_identity(first) == (501, 0, 0)
    m.acknowledged(first)
    assert m.may_send(second)


def test_out_of_order_sequence_behind_a_pending_batch_keeps_its_sequence() -> None:
    m = manager()
    _, second = send_batches(m, 1, 1)
    assert m.may_retry(second, OutOfOrderSequenceNumberError())
    assert batch_identity(second) == (501, 0, 1)


def test_out_of_order_sequence_of_the_first_batch_starts_the_next_epoch() -> None:
    m = manager()
    first, second = send_batches(m, 2, 3)
    assert m.may_retry(first, OutOfOrderSequenceNumberError())
    assert (batch_identity(first), batch_identity(second)) == ((501, 1, 0), (501, 1, 2))


def test_rejected_batch_leaves_no_sequence_gap() -> None:
    m = manager()
    first, second, third = send_batches(m, 1, 1, 1)
    m.acknowledged(first)
    m.failed(second, certain=True)
    assert batch_identity(third) == (501, 1, 0)


def test_batch_with_unknown_result_blocks_new_ones_until_others_complete() -> None:
    m = manager()
    first, second = send_batches(m, 1, 1)
    m.failed(first, certain=False)
    assert not m.may_send(batch())
    m.acknowledged(second)
    (after,) = send_batches(m, 1)
    assert batch_identity(after) == (501, 0, 2), "the second was accepted, so the first was written"


def test_last_batch_with_unknown_result_starts_a_new_epoch() -> None:
    m = manager()
    first, second = send_batches(m, 1, 1)
    m.acknowledged(first)
    m.failed(second, certain=False)
    (after,) = send_batches(m, 1)
    assert batch_identity(after) == (501, 1, 0)


def test_unknown_producer_id_error_starts_the_next_epoch() -> None:
    m = manager()
    (first,) = send_batches(m, 1)
    assert m.may_retry(first, UnknownProducerIdError())
    assert batch_identity(first) == (501, 1, 0)


def test_parts_of_a_split_batch_share_its_sequences() -> None:
    m = manager()
    first, second = send_batches(m, 5, 1)
    parts = [batch(3), batch(2)]
    m.split(first, parts)
    assert [part.base_sequence for part in parts] == [0, 3]
    assert m.may_send(parts[0])
    assert not m.may_send(parts[1])
    assert not m.may_send(second)
    m.acknowledged(parts[0])
    m.acknowledged(parts[1])
    assert m.may_send(second)


def test_other_partitions_use_the_new_epoch_when_none_of_their_batches_is_in_flight() -> None:
    m = manager()
    other = TopicPartition("t", 1)
    waiting = batch(1, other)
    m.number(waiting)
    (failed,) = send_batches(m, 1)
    m.failed(failed, certain=True)
    next_one = batch(1, other)
    m.number(next_one)
    assert (next_one.producer_epoch, next_one.base_sequence) == (0, 1)
    m.acknowledged(waiting)
    m.acknowledged(next_one)
    last = batch(1, other)
    m.number(last)
    assert (last.producer_epoch, last.base_sequence) == (1, 0)


def test_exhausted_epochs_require_a_new_producer_id(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.client")
    m = manager()
    m.epoch = MAX_EPOCH
    first, second = send_batches(m, 1, 1)
    m.failed(first, certain=True)
    assert not m.may_send(second)
    assert "restarting the sequence numbers at 0 with a new producer id" in caplog.text
    asyncio.run(m.get_producer_id())
    assert m.may_send(second)
    assert batch_identity(second) == (502, 0, 0)


def test_sequences_wrap_around_after_the_largest_int() -> None:
    m = manager()
    send_batches(m, 1)
    m._sequences(TP).next = 0x7FFFFFFF
    last, after = send_batches(m, 2, 1)
    assert (last.base_sequence, last.last_sequence, after.base_sequence) == (0x7FFFFFFF, 0, 1)
