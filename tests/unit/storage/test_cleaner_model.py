"""Model test of compaction: after random writes and passes, the last committed value of each key is read."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.effort import repeats
from tests.unit.storage.conftest import NOW, batch, contents

from ottla.clock import ManualClock
from ottla.records.decoder import Record, decode_records
from ottla.storage.compaction import cleaner
from ottla.storage.compaction.offset_map import BYTES_PER_KEY
from ottla.storage.log import Log
from ottla.storage.producer_state import ABORT, COMMIT, marker_record

RETENTION_MS = 1000
CONFIG = {
    "segment_bytes": 700,
    "index_interval_bytes": 150,
    "segment_index_bytes": 4096,
    "cleanup_policy": ("compact",),
    "delete_retention_ms": RETENTION_MS,
}


class Model:
    """A log, and all records that were written to it."""

    def __init__(self, make_log: Callable[..., Log], clock: ManualClock, seed: int) -> None:
        self.rng = random.Random(seed)
        self.make_log = make_log
        self.clock = clock
        self.log = make_log(**CONFIG)
        self.written: dict[int, tuple[bytes, bytes | None, int]] = {}
        """Offset → (key, value, timestamp) of users' records."""
        self.aborted: set[int] = set()
        """Offsets of records of aborted transactions."""
        self.open: dict[int, list[int]] = {}
        """Producer id → offsets in its open transaction."""
        self.sequence = {1: 0, 2: 0, 3: 0}
        self.cleaned_to = 0
        self.tombstones_seen: dict[int, int] = {}
        """Offset of a tombstone → the time of the first pass over it."""

    def append(self, producer_id: int = -1) -> None:
        rng = self.rng
        rows = [
            (NOW + rng.randrange(500), b"k%d" % rng.randrange(8), rng.choice((None, rng.randbytes(25), b"")))
            for _ in range(rng.randint(1, 3))
        ]
        options: dict[str, Any] = {}
        if producer_id > 0:
            options = {
                "producer_id": producer_id,
                "producer_epoch": 0,
                "base_sequence": self.sequence[producer_id],
                "transactional": producer_id > 1,
            }
            self.sequence[producer_id] += len(rows)
        base = self.log.append(batch(*rows, codec=rng.randrange(3), **options), leader_epoch=0).base_offset
        for i, (time, key, value) in enumerate(rows):
            self.written[base + i] = (key, value, time)
        if producer_id > 1:
            self.open.setdefault(producer_id, []).extend(range(base, base + len(rows)))

    def end(self) -> None:
        if not self.open:
            return
        producer_id = self.rng.choice(sorted(self.open))
        kind = self.rng.choice((ABORT, COMMIT))
        marker = batch(
            marker_record(kind, 0), producer_id=producer_id, producer_epoch=0, transactional=True, control=True
        )
        self.log.append(marker, leader_epoch=0, origin_client=False)
        offsets = self.open.pop(producer_id)
        if kind == ABORT:
            self.aborted |= set(offsets)

    def write(self) -> None:
        match self.rng.random():
            case x if x < 0.5:
                self.append()
            case x if x < 0.8:
                self.append(self.rng.choice((1, 2, 3)))
            case _:
                self.end()
        self.log.high_watermark = self.log.log_end_offset

    def clean(self) -> None:
        self.clock.advance(self.rng.choice((1, 300, 700, 1500)))
        if self.rng.random() < 0.5:
            self.log.roll()
        keys = self.rng.choice((8, 1000))
        self.cleaned_to = cleaner.clean(self.log, self.cleaned_to, map_bytes=keys * BYTES_PER_KEY)
        for offset, (_, value, _) in self.written.items():
            if value is None and offset < self.cleaned_to:
                self.tombstones_seen.setdefault(offset, self.clock.now_ms())

    def restart(self) -> None:
        if self.rng.random() < 0.5:
            self.log.close()
            self.log = self.make_log(clean=True, **CONFIG)
        else:
            self.log.close_without_flush()
            for path in self.log.dir.glob("*.snapshot"):
                path.unlink()  # the state is rebuilt from the batches
            self.log = self.make_log(**CONFIG)
        self.log.high_watermark = self.log.log_end_offset
        stored = {p.id: p.last_sequence for p in self.log.producers.producers.values()}
        assert {p: stored[p] for p, n in self.sequence.items() if n} == {
            p: n - 1 for p, n in self.sequence.items() if n
        }

    def committed(self, until: int) -> dict[bytes, tuple[int, bytes | None]]:
        """Return the last committed (offset, value) of each key before `until`."""
        undecided = {offset for offsets in self.open.values() for offset in offsets}
        return {
            key: (offset, value)
            for offset, (key, value, _) in sorted(self.written.items())
            if offset < until and offset not in self.aborted and offset not in undecided
        }

    def read_committed(self) -> list[Record]:
        """Read as a read_committed consumer, which skips the aborted transactions that the log lists."""
        log = self.log
        aborted = log.aborted_transactions(0, log.log_end_offset)
        stable = log.last_stable_offset
        actual = []
        for header, data in log.batches_from(0):
            is_aborted = header.is_transactional and any(
                a.producer_id == header.producer_id and a.first_offset <= header.base_offset <= a.last_offset
                for a in aborted
            )
            if header.base_offset < stable and not header.is_control and not is_aborted:
                actual += decode_records(data, 0, header)
        return actual

    def check(self) -> None:
        log = self.log
        actual = self.read_committed()
        assert [r.offset for r in actual] == sorted({r.offset for r in actual})
        assert all(self.written[r.offset] == (r.key, r.value, r.timestamp) for r in actual)
        assert not {r.offset for r in actual} & self.aborted
        values = {r.key: (r.offset, r.value) for r in actual}
        for key, (offset, value) in self.committed(log.last_stable_offset).items():
            assert values.get(key) == (offset, value) or (value is None and key not in values), key
        clean = [r.key for r in actual if r.offset < self.cleaned_to]
        assert len(clean) == len(set(clean)), "the compacted part has one record of each key"
        self._check_tombstones({r.offset for r in actual})
        for offset in range(log.log_start_offset, log.log_end_offset, 3):
            header = next(iter(log.batches_from(offset)), (None,))[0]
            later = [r.offset for r in contents(log) if r.offset >= offset]
            assert header is None or header.last_offset >= offset
            assert not later or (header is not None and header.base_offset <= later[0])

    def _check_tombstones(self, actual: set[int]) -> None:
        now = self.clock.now_ms()
        latest = self.committed(self.cleaned_to)
        for offset, value in latest.values():
            if value is not None:
                continue
            first_seen = self.tombstones_seen[offset]
            assert offset in actual or now >= first_seen + RETENTION_MS, "a reader may not have seen it yet"


STEPS = ("write",) * 8 + ("clean", "restart")


@pytest.mark.parametrize("seed", range(repeats(8, 50)))
def test_compaction_keeps_the_last_committed_value_of_each_key(
    make_log: Callable[..., Log], clock: ManualClock, seed: int
) -> None:
    model = Model(make_log, clock, seed)
    for step in range(70):
        getattr(model, model.rng.choice(STEPS))()
        if step % 5 == 0:
            model.check()
    model.check()
