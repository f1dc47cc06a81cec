"""Logs after a crash, generated from a seed: a valid log with files truncated, corrupted, lost or left over."""

from __future__ import annotations

import random
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from ottla.clock import ManualClock
from ottla.config.topic import LogConfig
from ottla.model import TopicPartition
from ottla.records import compression
from ottla.records.batch import split
from ottla.records.builder import BatchBuilder
from ottla.records.decoder import Record, decode_records
from ottla.storage.checkpoints import RECOVERY_POINTS
from ottla.storage.compaction import cleanable, cleaner
from ottla.storage.log import Log
from ottla.storage.log_dir import CLEAN_SHUTDOWN, LogDir
from ottla.storage.producer_state import ABORT, COMMIT, marker_record

NOW = 1_700_000_000_000
TP = TopicPartition("orders", 0)
TEMPLATES = 40
"""Number of valid logs from which the cases are generated."""
IN_MEMORY = Path("/dev/shm")
"""Directory for the cases if it exists, since thousands of fsyncs to a real disk take minutes."""


class Aborted(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int


class Template(NamedTuple):
    """A data directory with one log, as bytes, and the content expected after recovery."""

    files: dict[str, bytes]
    records: list[Record]
    aborted: list[Aborted]
    sequences: list[tuple[int, int, int]]
    """(offset, producer id, the producer's last sequence from this offset on)."""
    epochs: dict[int, int]
    """Offset → leader epoch."""
    recovery_point: int
    segments: list[int]
    compacting: bool
    """Whether a compaction was interrupted: earlier records of a key may be missing."""


def config(compacting: bool) -> LogConfig:
    return LogConfig(
        segment_bytes=900,
        index_interval_bytes=150,
        segment_index_bytes=4096,
        cleanup_policy=("compact",) if compacting else ("delete",),
    )


class Writer:
    """Fills a log at random, and records its expected content."""

    def __init__(self, log: Log, rng: random.Random) -> None:
        self.log = log
        self.rng = rng
        self.epoch = 0
        self.next_sequence = {1: 0, 2: 0, 3: 0}
        self.open_since: dict[int, int] = {}
        self.aborted: list[Aborted] = []
        self.sequences: list[tuple[int, int, int]] = []

    def step(self) -> None:
        rng = self.rng
        self.epoch += rng.random() < 0.1
        kind = rng.random()
        if kind < 0.5:
            self._append()
        elif kind < 0.7:
            self._append_of(1)
        elif self.open_since and kind < 0.8:
            self._end(rng.choice(sorted(self.open_since)))
        else:
            self._append_of(rng.choice((2, 3)))

    def _append(self, **options: Any) -> tuple[int, int]:
        rng = self.rng
        builder = BatchBuilder(bytearray(2000), rng.choice((compression.NONE, compression.NONE, compression.GZIP)))
        for _ in range(rng.randint(1, 3)):
            key = b"k%d" % rng.randrange(6)
            builder.append(NOW + rng.randrange(1000), key, rng.choice((None, rng.randbytes(rng.randrange(60)))))
        data = memoryview(bytearray(builder.close(**options)))
        appended = self.log.append(data, leader_epoch=self.epoch)
        return appended.base_offset, appended.last_offset

    def _append_of(self, producer_id: int) -> None:
        transactional = producer_id > 1
        first, last = self._append(
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=self.next_sequence[producer_id],
            transactional=transactional,
        )
        self.next_sequence[producer_id] += last - first + 1
        self.sequences.append((last, producer_id, self.next_sequence[producer_id] - 1))
        if transactional:
            self.open_since.setdefault(producer_id, first)

    def _end(self, producer_id: int) -> None:
        kind = self.rng.choice((ABORT, COMMIT))
        builder = BatchBuilder(bytearray(200))
        builder.append(NOW, *marker_record(kind, 0))
        data = builder.close(producer_id=producer_id, producer_epoch=0, transactional=True, control=True)
        at = self.log.append(memoryview(bytearray(data)), leader_epoch=self.epoch, origin_client=False).base_offset
        first = self.open_since.pop(producer_id)
        if kind == ABORT:
            self.aborted.append(Aborted(producer_id, first, at))


def contents(log: Log) -> list[Record]:
    return [r for header, data in log.batches_from(0) for r in decode_records(data, 0, header)]


@cache
def template_of(number: int) -> Template:
    """Return the template of this number."""
    rng = random.Random(number)
    compacting = number % 4 == 3
    data = scratch()
    try:
        log_dir = LogDir.open(data, broker_id=0, clock=ManualClock(NOW))
        log_dir.load(lambda _: config(compacting))
        log = log_dir.create(TP, config(compacting), "AAAAAAAAAAAAAAAAAAAAAA")
        writer = Writer(log, rng)
        for _ in range(rng.randint(20, 40)):
            writer.step()
        log.flush(rng.randint(1, log.log_end_offset) if not compacting else log.active.base_offset)
        log.high_watermark = log.log_end_offset
        log_dir.checkpoint()
        records, segments = contents(log), [s.base_offset for s in log.segments]
        epochs = {h.base_offset: h.leader_epoch for h, _ in log.batches_from(0)}
        if compacting:
            _stop_within_compaction(log, rng)
        return Template(
            files={str(p.relative_to(data)): p.read_bytes() for p in data.rglob("*") if p.is_file()},
            records=records,
            aborted=writer.aborted,
            sequences=writer.sequences,
            epochs=epochs,
            recovery_point=log.recovery_point,
            segments=segments,
            compacting=compacting,
        )
    finally:
        shutil.rmtree(data)


class ProcessEnd(BaseException):
    """Raised at the point at which the simulated process ends."""


def _stop_within_compaction(log: Log, rng: random.Random) -> None:
    """Compact up to a random rename or removal of a file."""
    left = rng.randrange(40)

    def counted(real: Any) -> Any:
        def wrapped(path: Path, *args: Any, **options: Any) -> Any:
            nonlocal left
            if left == 0:
                raise ProcessEnd
            left -= 1
            return real(path, *args, **options)

        return wrapped

    rename, unlink = Path.rename, Path.unlink
    cleaning = cleaner.CleanerPass(cleanable.measure(log, 0, NOW), NOW)
    cleaning.copy()
    Path.rename, Path.unlink = counted(rename), counted(unlink)  # type: ignore[method-assign]
    try:
        cleaning.install()
    except ProcessEnd:
        pass
    finally:
        Path.rename, Path.unlink = rename, unlink  # type: ignore[method-assign]


def scratch() -> Path:
    return Path(mkdtemp(prefix="ottla-crash-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None))


class Damage:
    """Damage to the files of a valid log. `done` describes it for the message of a failing test."""

    def __init__(self, template: Template, rng: random.Random) -> None:
        self.files = dict(template.files)
        self.done: list[str] = []
        self.unsure: set[str] = set()
        """Indexes that are used until a lookup detects that they are invalid."""
        self._rng = rng
        self._template = template
        unflushed = [s for s in template.segments if self._end_of(s) > template.recovery_point]
        self._loose_logs = [f"{TP}/{s:020d}.log" for s in unflushed]
        self._flushed_logs = {f"{TP}/{s:020d}.log" for s in template.segments} - set(self._loose_logs)
        self._derived = [
            name
            for name in self.files
            if name.endswith((".index", ".timeindex", ".txnindex", ".snapshot", "checkpoint"))
            or name.endswith((".index.swap", ".timeindex.swap", ".index.cleaned", ".log.cleaned"))
        ]

    def _end_of(self, segment: int) -> int:
        following = [s for s in self._template.segments if s > segment]
        return min(following, default=1 << 62)

    def cut_log(self) -> None:
        """Truncate or corrupt the end of a segment that was not flushed."""
        name = self._rng.choice(self._loose_logs)
        self._change(name, self._flushed_bytes(name))

    def lose_log(self) -> None:
        """Remove a whole segment that was not flushed."""
        name = self._rng.choice(self._loose_logs)
        if int(Path(name).stem) >= self._template.recovery_point > 0 and not self._template.compacting:
            self._remove(name)
            # without the recovery point, a gap may be due to an earlier compaction, and is not repaired
            self._derived = [n for n in self._derived if n != RECOVERY_POINTS]
            self.files[RECOVERY_POINTS] = self._template.files[RECOVERY_POINTS]

    def change_derived(self) -> None:
        """Truncate or corrupt a file that can be rebuilt."""
        name = self._rng.choice(self._derived)
        if name.endswith("checkpoint"):
            self._change_text(name)
        elif name.endswith(".swap") or (name.endswith((".timeindex", ".txnindex")) and self._is_flushed(name)):
            self._change_length(name)
        else:
            self.unsure |= {name} if self._is_flushed(name) else set()
            self._change(name, 0)

    def _change_text(self, name: str) -> None:
        """Change a text file, but do not replace digits with other digits, which could not be detected."""
        data = self.files.get(name, b"")
        at = self._rng.randint(0, len(data))
        noise = bytes(self._rng.randint(128, 255) for _ in range(5))
        how, self.files[name] = self._rng.choice(
            (("cut", data[:at]), ("garbled", data[:at] + noise + data[at + 5 :]), ("longer", data + noise))
        )
        self.done.append(f"{how} {name} at {at}")

    def _change_length(self, name: str) -> None:
        """Change the length of a flushed file, as a damaged disk may; a loss of whole entries could not be detected."""
        data = self.files.get(name, b"")
        odd = 12 * self._rng.randint(0, 9) + self._rng.randint(1, 5)
        how, changed = self._rng.choice((("cut", data[:-odd]), ("longer", data + self._rng.randbytes(odd))))
        if len(changed) % (34 if "txnindex" in name else 12 if "timeindex" in name else 8):
            self.files[name] = changed
            self.done.append(f"{how} {name} to {len(changed)}")

    def lose_derived(self) -> None:
        """Remove a file that can be rebuilt, except a flushed transaction index, since many segments have none."""
        name = self._rng.choice(self._derived)
        if not self._is_flushed(name) or not name.endswith(".txnindex"):
            self._remove(name)

    def _is_flushed(self, name: str) -> bool:
        return str(Path(name).with_suffix(".log")) in self._flushed_logs

    def leave_over(self) -> None:
        """Add a file of an interrupted operation."""
        segment = self._rng.choice(self._template.segments)
        names = [f"{segment:020d}{s}.deleted" for s in (".log", ".index", ".timeindex", ".txnindex")]
        names += ["leader-epoch-checkpoint.tmp", f"{segment:020d}.snapshot.tmp", f"{10**9:020d}.index"]
        if not self._template.compacting:
            names += [f"{segment:020d}{s}.cleaned" for s in (".log", ".index", ".txnindex")]
            names += [f"{segment:020d}{s}.swap" for s in (".index", ".timeindex")]
        name = f"{TP}/{self._rng.choice(names)}"
        self.files.setdefault(name, self._rng.randbytes(self._rng.randrange(100)))
        self.done.append(f"left over {name}")

    def _flushed_bytes(self, name: str) -> int:
        """Return the size of a segment's part before the recovery point, which is certainly on the disk."""
        base = 0
        for header, _, end in split(self._template.files[name]):
            if header.base_offset < self._template.recovery_point:
                base = end
        return base

    def _change(self, name: str, length: int) -> None:
        rng = self._rng
        data = bytearray(self.files.get(name, b""))
        at = rng.randint(min(length, len(data)), len(data))
        how = rng.choice(("cut", "garbled", "zeros", "flipped", "longer"))
        if how == "cut":
            del data[at:]
        elif how == "longer":
            data += rng.choice((bytes(rng.randint(1, 200)), rng.randbytes(rng.randint(1, 200))))
        elif at < len(data):
            until = rng.randint(at + 1, len(data))
            if how == "flipped":
                data[at] ^= 1 << rng.randrange(8)
            else:
                data[at:until] = bytes(until - at) if how == "zeros" else rng.randbytes(until - at)
        self.files[name] = bytes(data)
        self.done.append(f"{how} {name} at {at}")

    def restore_undetectable_damage(self) -> None:
        """Restore the bytes of batches whose damage cannot be detected, since no checksum or order covers them."""
        gaps = self._template.compacting or self.files.get(RECOVERY_POINTS) != self._template.files[RECOVERY_POINTS]
        for name, before in self._template.files.items():
            if name.endswith(".log") and name in self.files:
                self.files[name] = _restored(before, bytearray(self.files[name]), offsets=gaps)

    def _remove(self, name: str) -> None:
        if self.files.pop(name, None) is not None:
            self.done.append(f"lost {name}")


def _restored(before: bytes, data: bytearray, *, offsets: bool) -> bytes:
    for _, start, _ in split(before):
        if start + 16 <= len(data):
            data[start + 12 : start + 16] = before[start + 12 : start + 16]
            if offsets:
                data[start : start + 8] = before[start : start + 8]
    return bytes(data)


STEPS = (Damage.cut_log, Damage.cut_log, Damage.change_derived, Damage.lose_derived, Damage.lose_log, Damage.leave_over)


class Case:
    """One crash: a damaged log, written to its own directory and opened again."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.template = template_of(seed % TEMPLATES)
        self.damage = Damage(self.template, rng)
        for _ in range(rng.randint(1, 4)):
            rng.choice(STEPS)(self.damage)
        self.damage.restore_undetectable_damage()
        self.damage.files.pop(CLEAN_SHUTDOWN, None)
        self.rng = rng
        self.data = scratch()

    def __enter__(self) -> Case:
        (self.data / str(TP)).mkdir()
        for name, content in self.damage.files.items():
            (self.data / name).write_bytes(content)
        return self

    def __exit__(self, *exc: object) -> None:
        shutil.rmtree(self.data)

    def open(self) -> LogDir:
        log_dir = LogDir.open(self.data, broker_id=0, clock=ManualClock(NOW))
        log_dir.load(lambda _: config(self.template.compacting))
        return log_dir
