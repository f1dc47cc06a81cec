"""Thousands of crashes of a log, with files truncated, corrupted, lost or left over: flushed records are preserved."""

from __future__ import annotations

import random
from collections import deque

import pytest
from tests.crash.crash_cases import NOW, TP, Case, Template, contents
from tests.effort import repeats

from ottla.records.builder import BatchBuilder
from ottla.records.decoder import Record
from ottla.storage.log import Log
from ottla.storage.scan import headers
from ottla.storage.segment import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX, Segment

pytestmark = pytest.mark.slow

CASES = repeats(2_000, 10_000)
READ_EACH = 3
"""After each crash, every n-th offset is looked up."""
PARTS = 40
"""Number of tests into which the cases are divided, so that they run in parallel."""


@pytest.mark.parametrize("part", range(PARTS))
def test_log_is_recovered_after_a_crash(part: int) -> None:
    for seed in range(part, CASES, PARTS):
        with Case(seed) as case:
            try:
                check(case)
            except Exception as error:
                raise AssertionError(f"seed {seed}: {', '.join(case.damage.done)}: {error!r}") from error


def check(case: Case) -> None:
    log_dir = case.open()
    try:
        assert not log_dir.failed, log_dir.failed
        log = log_dir.logs[TP]
        actual = check_records(log, case.template)
        check_reads(log, actual, case.rng.randrange(READ_EACH))
        for segment in log.segments:
            if f"{TP}/{segment.path('.index').name}" not in case.damage.unsure:
                check_indexes(segment)
        end = log.log_end_offset
        check_state(log, case.template, end)
        check_leftovers(log)
        log.append(a_batch(), leader_epoch=1000)
        after = contents(log)
        assert after[:-1] == actual
        if case.rng.random() < 0.2:
            log_dir.close()
            log_dir = case.open()
            assert contents(log_dir.logs[TP]) == after
            check_state(log_dir.logs[TP], case.template, end)
    finally:
        log_dir.close()


def check_records(log: Log, template: Template) -> list[Record]:
    """Check that the records are a prefix of those written, at least to the recovery point, or a part if compacted."""
    records = contents(log)
    end = log.log_end_offset
    assert end >= template.recovery_point
    written = [r for r in template.records if r.offset < end]
    if not template.compacting:
        assert records == written
        assert not written or written[-1].offset == end - 1
        return records
    by_offset = {r.offset: r for r in written}
    assert all(by_offset[r.offset] == r for r in records)
    offsets = [r.offset for r in records]
    assert offsets == sorted(set(offsets))
    return records


def check_reads(log: Log, actual: list[Record], first: int) -> None:
    """Check lookups by offset and by timestamp."""
    batches = deque((header.last_offset, bytes(data)) for header, data in log.batches_from(0))
    for offset in range(log.log_start_offset + first, log.log_end_offset, READ_EACH):
        while batches and batches[0][0] < offset:
            batches.popleft()
        with log.read(offset, 1, max_offset=log.log_end_offset) as piece:
            assert piece.read() == (batches[0][1] if batches else b""), offset
    latest = max((r.timestamp for r in actual), default=-1)
    for time in (NOW, NOW + 300, latest, latest + 1):
        expected = next((r.offset for r in actual if r.timestamp >= time), None)
        at = log.offset_for_time(time)
        assert (None if at is None else at.offset) == expected, time


def check_indexes(segment: Segment) -> None:
    """Check that every entry points to a batch at or before its offset."""
    segment.sanity_check()
    starts = dict(headers(segment.file, 0, segment.size))
    for i in range(segment.offset_index.entries):
        relative, position = segment.offset_index.entry(i)
        assert starts[position].base_offset <= segment.base_offset + relative, segment.offset_index.path
    assert segment.latest().timestamp == max((h.max_timestamp for h in starts.values()), default=-1)


def check_state(log: Log, template: Template, end: int) -> None:
    """Check that producers, transactions and epochs are those of the remaining records before `end`."""
    for header, _ in log.batches_from(0):
        if header.base_offset < end:
            assert log.epoch_for_offset(header.base_offset) == template.epochs[header.base_offset]
    last = {producer_id: sequence for offset, producer_id, sequence in template.sequences if offset < end}
    remaining = {p.id: p.last_sequence for p in log.producers.producers.values()}
    if template.compacting:
        # a producer's last batch may be lost and earlier ones compacted: then its sequence numbers restart
        assert all(remaining.get(p, -1) <= sequence for p, sequence in last.items())
    else:
        assert {p: remaining.get(p) for p in last} == last
        aborted = [a for a in template.aborted if a.last_offset < end]
        assert [a[:3] for a in log.aborted_transactions(0, log.log_end_offset)] == aborted


def check_leftovers(log: Log) -> None:
    names = [path.name for path in log.dir.iterdir()]
    assert not [n for n in names if n.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, ".tmp"))]
    owners = {n.partition(".")[0] for n in names if n.endswith((".log", ".index", ".timeindex", ".txnindex"))}
    assert owners == {f"{s.base_offset:020d}" for s in log.segments}


def a_batch() -> memoryview:
    builder = BatchBuilder(bytearray(200))
    builder.append(NOW, b"goes", b"on" + random.randbytes(3))
    return memoryview(bytearray(builder.close()))
