"""Checks of promises that must hold under all faults: one function per promise, which returns its violations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ottla.model import TopicPartition
from ottla.simulation.history import (
    ORDERED,
    TRANSFERS,
    Ack,
    Assigned,
    Attempt,
    Committed,
    Consumed,
    Outcome,
    SentRecord,
    StoredRecord,
    TransferRecord,
)
from ottla.simulation.replicas import Replica, smallest

GroupEvent = Assigned | Consumed | Committed


def of_topic(records: Iterable[StoredRecord], topic: str) -> Iterator[StoredRecord]:
    """Yield the records of one topic."""
    return (record for record in records if record.tp.topic == topic)


def no_acked_record_is_lost(acks: Iterable[Ack], records: Sequence[StoredRecord]) -> list[str]:
    """Check that every acknowledged record is stored, at the offset of its acknowledgement if it has one."""
    actual = {(record.tp.partition, record.offset): record.value for record in of_topic(records, ORDERED)}
    values = set(actual.values())
    wrong = []
    for _, sent, offset in acks:
        value = None if offset is None else actual.get((sent.partition, offset))
        if sent.value not in values or (offset is not None and value != sent.value):
            wrong.append(f"{sent} was acked at offset {offset}, where the log has {value!r}")
    return wrong


def every_delivery_succeeds(failed: Iterable[tuple[float, SentRecord, str]]) -> list[str]:
    """Check that every delivery succeeded: faults last seconds, which is less than the delivery timeout."""
    return [f"{sent} failed: {error}" for _, sent, error in failed]


def no_producer_has_ended(ended: Mapping[str, str]) -> list[str]:
    """Check that every client continued until it was stopped, without wrong results. `ended`: `History.ended`."""
    return [f"{name}: {error}" for name, error in ended.items()]


def no_record_is_duplicated(records: Sequence[StoredRecord]) -> list[str]:
    """Check that no record of an idempotent producer is in the log twice, even after a change of the producer epoch."""
    counts = Counter(record.value for record in of_topic(records, ORDERED))
    return [f"{value!r} is in the log {count} times" for value, count in counts.items() if count > 1]


def order_is_preserved(records: Sequence[StoredRecord]) -> list[str]:
    """Check that the numbers that a producer writes do not decrease with the offsets of each partition."""
    last: dict[tuple[int, str], int] = {}
    wrong = []
    for record in of_topic(sorted(records), ORDERED):
        sent = SentRecord.parse(record.value)
        key = (record.tp.partition, sent.producer)
        if sent.sequence < last.get(key, -1):
            wrong.append(f"{sent} at offset {record.offset} comes after {last[key]}")
        last[key] = sent.sequence
    return wrong


def transactions_are_atomic(attempts: Sequence[Attempt], records: Sequence[StoredRecord]) -> list[str]:
    """Check that transactions are visible completely or not at all, in agreement with the outcomes that their clients
    received.
    """
    seen: dict[tuple[str, int], set[TransferRecord]] = defaultdict(set)
    for record in of_topic(records, TRANSFERS):
        half = TransferRecord.parse(record.value)
        seen[half.worker, half.attempt].add(half)
    wrong = []
    for attempt in attempts:
        actual = seen.pop((attempt.worker, attempt.number), set())
        name = f"transaction {attempt.number} of {attempt.worker} ({attempt.outcome.value})"
        if actual and actual != attempt.records:
            wrong.append(f"{name} is torn: {len(actual)} of {len(attempt.records)} records")
        elif not actual and attempt.outcome is Outcome.COMMITTED:
            wrong.append(f"{name} is lost")
        elif actual and attempt.outcome is Outcome.ABORTED:
            wrong.append(f"{name} is visible")
    return wrong + [f"transaction {number} of {worker} was never started" for worker, number in seen]


def transfers_are_exactly_once(transferred: Mapping[str, int | None], records: Sequence[StoredRecord]) -> list[str]:
    """Check that every source record below the committed offset of its worker was transferred once, and none at or
    above it.
    """
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    for record in of_topic(records, TRANSFERS):
        half = TransferRecord.parse(record.value)
        counts[half.worker][half.source] += 1
    wrong = []
    for worker, end in transferred.items():
        if end is None:
            wrong.append(f"{worker} could not end its last transaction")
            continue
        wrong += [f"{worker} did not transfer {n}" for n in range(end) if not counts[worker][n]]
        wrong += [f"{worker} transferred {n} {c / 2:g} times" for n, c in counts[worker].items() if c != 2]
        wrong += [f"{worker} transferred {n}, but committed only up to {end}" for n in counts[worker] if n >= end]
    return wrong


def no_transaction_stays_open(held_back: Mapping[TopicPartition, tuple[int, int]]) -> list[str]:
    """Check that read_committed consumers reach the end of the log. `held_back`: position and end offset of each
    partition whose end was not reached.
    """
    return [f"{p.topic}-{p.partition}: read up to {at} of {end}" for p, (at, end) in held_back.items()]


def every_record_is_consumed(events: Sequence[GroupEvent], records: Sequence[StoredRecord]) -> list[str]:
    """Check that every record was consumed, that no new owner of a partition received a record before the offset that
    was committed when it got the partition, and that no owner received a record twice during one assignment.
    """
    taken = {(event.tp, event.offset) for event in events if isinstance(event, Consumed)}
    wrong = [f"no member took {r.tp} {r.offset}" for r in records if (r.tp, r.offset) not in taken]
    return wrong + _consumed_again(events)


def _consumed_again(events: Sequence[GroupEvent]) -> list[str]:
    committed: dict[TopicPartition, int] = {}
    floor: dict[tuple[str, TopicPartition], int] = {}
    wrong = []
    for event in sorted(events, key=lambda event: event.at):
        key = (event.member, event.tp)
        if isinstance(event, Committed):
            # even if it is lower than before: librdkafka repeats unanswered commits after later ones
            committed[event.tp] = event.position
        elif isinstance(event, Assigned):
            floor[key] = committed.get(event.tp, 0)
        else:
            if event.offset < floor.get(key, 0):
                wrong.append(f"{event.member} took {event.tp} {event.offset} again, {floor[key]} was behind it")
            floor[key] = event.offset + 1
    return wrong


def partitions_have_one_owner(events: Sequence[GroupEvent]) -> list[str]:
    """Check that no two members of a generation were assigned the same partition. Groups with the consumer protocol
    have no generations, so they are not checked.
    """
    owners: dict[tuple[TopicPartition, int], str] = {}
    wrong = []
    for event in events:
        if isinstance(event, Assigned) and event.generation >= 0:
            owner = owners.setdefault((event.tp, event.generation), event.member)
            if owner != event.member:
                wrong.append(f"{owner} and {event.member} both got {event.tp} in generation {event.generation}")
    return wrong


def only_committed_records_are_read(events: Sequence[GroupEvent], records: Sequence[StoredRecord]) -> list[str]:
    """Check that no member received a record of an aborted transaction, or one that is not in the log at the end."""
    stored = {(record.tp, record.offset) for record in records}
    taken = [event for event in events if isinstance(event, Consumed)]
    return [f"{t.member} took {t.tp} {t.offset}" for t in taken if (t.tp, t.offset) not in stored]


def replicas_are_equal(replicas: Mapping[TopicPartition, Sequence[Replica]]) -> list[str]:
    """Check that the replicas of each partition have the same batches, from the highest first offset of all replicas to
    the lowest high watermark.
    """
    ends = smallest(replicas)
    wrong = []
    for tp, of in replicas.items():
        start = max((replica.batches[0].base_offset for replica in of if replica.batches), default=0)
        logs = [
            [batch for batch in replica.batches if batch.base_offset >= start and batch.next_offset <= ends[tp]]
            for replica in of
        ]
        for log in logs[1:]:
            if log != logs[0]:
                wrong.append(f"{tp.topic}-{tp.partition}: {_first_difference(logs[0], log)}")
    return wrong


def _first_difference(one: Sequence[object], other: Sequence[object]) -> str:
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            return f"{mine} and {theirs}"
    return f"{len(one)} and {len(other)} batches"


def high_watermarks_cover_acked_records(
    acks: Iterable[Ack], replicas: Mapping[TopicPartition, Sequence[Replica]], brokers: int = 3
) -> list[str]:
    """Check that each partition of ORDERED and TRANSFERS in `replicas` has `brokers` replicas, and that for
    each partition of ORDERED the lowest high watermark of its replicas is above the offsets of its acknowledged
    records.
    """
    ends = smallest(replicas)
    last: dict[TopicPartition, int] = {}
    for _, sent, offset in acks:
        tp = TopicPartition(ORDERED, sent.partition)
        last[tp] = max(-1 if offset is None else offset, last.get(tp, -1))
    written = {tp for tp in replicas if tp.topic in (ORDERED, TRANSFERS)}
    wrong = [f"{p} has {len(replicas[p])} replicas" for p in sorted(written) if len(replicas[p]) != brokers]
    for tp, offset in last.items():
        if ends.get(tp, -1) <= offset:
            wrong.append(f"{tp}: high watermark {ends.get(tp)}, but {offset} was acked")
    return wrong


def objects_match_metadata(objects: Iterable[str], segments: Mapping[str, str]) -> list[str]:
    """Check that the object store has the segments that consumers may read, and no other objects, and that the metadata
    has no segments in other states.

    `segments`: the names of the states of the segments in the metadata, by their ids.
    """
    stored = {segment_id for name in objects for segment_id in [name.rpartition("/")[2][21:57]]}
    readable = {segment_id for segment_id, state in segments.items() if state == "COPY_SEGMENT_FINISHED"}
    wrong = [f"{segment_id} is in the store, in state {segments.get(segment_id)}" for segment_id in stored - readable]
    wrong += [f"{segment_id} is readable, and not in the store" for segment_id in readable - stored]
    return sorted(wrong + [f"{i} is in state {state}" for i, state in segments.items() if i not in readable | stored])
