"""Model test of a log against a dict, under random appends, rolls, truncations, restarts and kills."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.effort import repeats
from tests.unit.storage.conftest import NOW, batch, contents

from ottla.records import compression
from ottla.records.batch import split
from ottla.records.decoder import decode_records
from ottla.storage.log import Log
from ottla.storage.retention import apply_retention

CONFIG = {"segment_bytes": 3000, "index_interval_bytes": 200, "segment_index_bytes": 400, "retention_bytes": 20_000}


class Model:
    """The expected content of the log: records by offset, and its first and last offset."""

    def __init__(self, make_log: Callable[..., Log], seed: int) -> None:
        self.rng = random.Random(seed)
        self.make_log = make_log
        self.log = make_log(**CONFIG)
        self.records: dict[int, tuple[int, bytes, bytes]] = {}
        self.sequence = 0
        self.epoch = 0
        self.start = 0
        self.now = NOW

    @property
    def end(self) -> int:
        return self.log.log_end_offset

    def append(self) -> None:
        rng = self.rng
        self.now += rng.randrange(20)
        rows = [
            (self.now - rng.randrange(30), b"k%d" % rng.randrange(5), rng.randbytes(rng.randrange(150)))
            for _ in range(rng.randint(1, 5))
        ]
        options: dict[str, Any] = {}
        if rng.random() < 0.5:
            options = {"producer_id": 3, "producer_epoch": 0, "base_sequence": self.sequence}
            self.sequence += len(rows)
        self.epoch += rng.random() < 0.1
        data = batch(*rows, codec=rng.choice([compression.NONE, compression.SNAPPY]), **options)
        again = memoryview(bytearray(data))
        appended = self.log.append(data, leader_epoch=self.epoch)
        for i, row in enumerate(rows):
            self.records[appended.base_offset + i] = row
        if options:
            assert self.log.append(again, leader_epoch=self.epoch).base_offset == appended.base_offset
            assert self.end == appended.last_offset + 1, "a repeated batch is not appended"

    def roll(self) -> None:
        self.log.roll()

    def flush(self) -> None:
        self.log.flush(self.rng.randint(self.log.recovery_point, self.end))

    def truncate(self) -> None:
        # At or above the recovery point, as in replication: flushed and acknowledged records are not truncated.
        offset = self.rng.randint(max(self.start, self.log.recovery_point), self.end)
        self.log.truncate_to(offset)
        starts = [h.base_offset for h, _ in self.log.batches_from(self.log.log_start_offset)]
        stored = contents(self.log)
        assert all(r.offset < offset for r in stored)
        assert starts == sorted(starts)
        self.records = {r.offset: self.records[r.offset] for r in stored if r.offset >= self.start}
        self._continue_sequence()

    def _continue_sequence(self) -> None:
        producer = self.log.producers.producers.get(3)
        self.sequence = 0 if producer is None else producer.last_sequence + 1

    def delete_records(self) -> None:
        self.log.high_watermark = self.end
        self.start = self.log.delete_records_before(self.rng.randint(self.log.log_start_offset, self.end))
        self.records = {o: row for o, row in self.records.items() if o >= self.start}

    def retention(self) -> None:
        self.log.high_watermark = self.end
        apply_retention(self.log, NOW)
        self.start = self.log.log_start_offset
        self.records = {o: row for o, row in self.records.items() if o >= self.start}

    def restart(self) -> None:
        self.log.close()
        self.log = self.make_log(clean=True, log_start_offset=self.start, **CONFIG)
        assert self.log.recovery_point == self.end

    def kill(self) -> None:
        """End the process. The disk may lose unflushed bytes at the end of the active segment."""
        end = self.end
        self.log.close_without_flush()
        active = self.log.active
        if active.base_offset >= self.log.recovery_point and self.rng.random() < 0.5:
            with active.path(".log").open("r+b") as file:
                file.truncate(self.rng.randint(0, active.size))
        self.log = self.make_log(recovery_point=self.log.recovery_point, log_start_offset=self.start, **CONFIG)
        assert self.log.recovery_point <= self.end <= end
        self.start = self.log.log_start_offset
        stored = {r.offset for r in contents(self.log)}
        assert stored >= {o for o in self.records if o < self.end}
        self.records = {o: row for o, row in self.records.items() if o in stored}
        self._continue_sequence()

    def check(self) -> None:
        log, rng = self.log, self.rng
        actual = [r for r in contents(log) if r.offset >= self.start]
        assert {r.offset: (r.timestamp, r.key, r.value) for r in actual} == self.records
        for _ in range(5):
            offset = rng.randint(log.log_start_offset, self.end)
            bound = rng.randint(offset, self.end)
            data = log.read(offset, rng.choice([1, 300, 5000]), max_offset=bound).read()
            offsets_read = [r.offset for h, at, _ in split(data) for r in decode_records(data, at, h)]
            assert all(o < bound for o in offsets_read)
            assert [o for o in offsets_read if o >= offset] == [o for o in sorted(self.records) if offset <= o][
                : len([o for o in offsets_read if o >= offset])
            ]
            header = next(iter(log.batches_from(offset)), (None,))[0]
            if header is not None and header.next_offset <= bound:
                assert offsets_read, "a whole batch below the bound is readable"
        expected = rng.randint(NOW - 40, self.now + 5)
        first = min((o for o, row in self.records.items() if row[0] >= expected), default=None)
        at = log.offset_for_time(expected)
        assert (None if at is None else at.offset) == first
        epochs = log.leader_epochs.entries
        assert epochs == sorted(epochs)
        assert all(e.start_offset <= self.end for e in epochs)


STEPS = ["append"] * 12 + ["roll", "flush", "truncate", "delete_records", "retention", "restart", "kill"]


@pytest.mark.parametrize("seed", [*range(repeats(10, 100)), 126])
def test_log_matches_the_model_after_random_operations(make_log: Callable[..., Log], seed: int) -> None:
    model = Model(make_log, seed)
    for _ in range(120):
        getattr(model, model.rng.choice(STEPS))()
        model.check()
