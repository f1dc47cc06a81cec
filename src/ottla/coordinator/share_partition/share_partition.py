"""The state of a share group in one partition: which records are acquired, and which are done (KIP-932).

    Available ──acquire──▶ Acquired ──accept──▶ Acknowledged
        ▲                     │ └──reject, or delivered too often──▶ Archived
        └──release, timeout───┘

With share.isolation.level=read_committed, records of aborted transactions go from Available to Archived.

Invariants: every offset from `start` up to, but not including, `end` has a slot. The slot of `start`, if there is one,
is not done, or its acknowledgement is not stored yet. Apart from `restore`, no slot is added while there are
`max_records`. Only the member that has acquired a record can acknowledge it. Times are arguments, in seconds of the
clock's `monotonic`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from ottla.coordinator.runtime.deadline_queue import NEVER
from ottla.errors import InvalidRecordStateError, InvalidRequestError


class RecordState(IntEnum):
    """The states of a record, with Kafka's numbers."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


DONE = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})


class AcknowledgeType(IntEnum):
    """The types of acknowledgements, with Kafka's numbers."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


RESULTING_STATE = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
    AcknowledgeType.RENEW: RecordState.ACQUIRED,
}


class ShareLimits(NamedTuple):
    """Limits of a share partition: records in flight, deliveries of one record, and seconds for which a member may hold
    a record.
    """

    max_records: int
    max_deliveries: int
    lock_seconds: float


@dataclass(slots=True)
class RecordSlot:
    """The state of one record.

    `delivered`: number of deliveries. `member_id` and `locked_until`: the member that has acquired it, and until when,
    in seconds of the clock's `monotonic`.
    """

    state: RecordState
    delivered: int
    member_id: str = ""
    locked_until: float = NEVER


class RecordRange(NamedTuple):
    """Consecutive records with the same state and number of deliveries."""

    first: int
    last: int
    state: RecordState
    delivered: int


class AcknowledgedRange(NamedTuple):
    """Consecutive records that are acknowledged. `types` has one type for all of them, or one type per record."""

    first: int
    last: int
    types: Sequence[int]


@dataclass(slots=True)
class SharePartition:
    """A share partition.

    Methods that change the states of records, except `acquire` and `restore`, return the offsets of those whose state
    has to be written. An acknowledgement is final once that write has succeeded (`begin_write`, `end_write`).
    """

    start: int
    end: int
    limits: ShareLimits
    slots: dict[int, RecordSlot] = field(default_factory=dict)
    deleted: dict[int, RecordSlot] = field(default_factory=dict)
    """Acquired records that the log no longer has, at most `max_records`. Acknowledgements of them are not stored."""
    unwritten: dict[int, RecordSlot] = field(default_factory=dict)
    """Records that are done by an acknowledgement which no write contains yet, with their slots from before."""
    in_write: dict[int, RecordSlot] = field(default_factory=dict)
    """Records that are done by an acknowledgement in the current write, with their slots from before."""
    waiters: dict[Callable[[], None], None] = field(default_factory=dict)
    """Functions to call when records have changed, so that some may be available. A dict, to keep their order."""

    @property
    def next_offset(self) -> int:
        """The offset of the first available record; `end` if there is none."""
        return next((o for o in range(self.start, self.end) if self.slots[o].state is RecordState.AVAILABLE), self.end)

    @property
    def is_full(self) -> bool:
        """Whether no record can be acquired until others are acknowledged or released."""
        return len(self.slots) >= self.limits.max_records and self.next_offset == self.end

    @property
    def stored_start(self) -> int:
        """The start offset to store: `start`, as it will be after the next write."""
        return next((o for o in range(self.start, self.end) if self.slots[o].state not in DONE), self.end)

    @property
    def done(self) -> int:
        """The number of records from `stored_start` on that are acknowledged or archived."""
        start = self.stored_start
        return sum(slot.state in DONE for offset, slot in self.slots.items() if offset >= start)

    @property
    def next_expiry(self) -> float:
        """The time at which the first acquisition lock expires; NEVER if there is none."""
        return min((slot.locked_until for slot in (*self.slots.values(), *self.deleted.values())), default=NEVER)

    def acquire(self, member_id: str, first: int, last: int, most: int, now: float) -> list[RecordRange]:
        """Acquire up to `most` available records from offset `first` to `last` for a member. Return them as ranges."""
        taken: list[int] = []
        for offset in range(max(first, self.start), last + 1):
            if len(taken) >= most or not self._ensure_slot(offset):
                break
            slot = self.slots[offset]
            if slot.state is RecordState.AVAILABLE:
                self.slots[offset] = RecordSlot(
                    RecordState.ACQUIRED, slot.delivered + 1, member_id, now + self.limits.lock_seconds
                )
                taken.append(offset)
        return self.runs(taken)

    def archive(self, first: int, last: int) -> list[int]:
        """Archive the available records from offset `first` to `last`, because they must not be delivered.

        Stop at a record for which a slot beyond `max_records` would have to be created.
        """
        archived = []
        for offset in range(max(first, self.start), last + 1):
            if not self._ensure_slot(offset):
                break
            if self.slots[offset].state is RecordState.AVAILABLE:
                self._set_state(offset, RecordState.ARCHIVED)
                archived.append(offset)
        return self._advance_start(archived)

    def acknowledge(self, member_id: str, acknowledged: Iterable[AcknowledgedRange], now: float) -> list[int]:
        """Apply acknowledgements of a member. If one of them is invalid, raise its error and apply none.

        Raises InvalidRequestError for a malformed acknowledgement, and InvalidRecordStateError if the member has not
        acquired one of the records, even if that is before `start`: after the lock timeout, or while another broker led
        the partition, other members may have acquired and accepted it. Apache Kafka ignores acknowledgements of records
        before `start`, so that two members may accept the same record.
        """
        becomes: dict[int, AcknowledgeType] = {}
        for batch in acknowledged:
            becomes |= self._validate(member_id, batch)
        changed = []
        for offset, kind in becomes.items():
            if kind is AcknowledgeType.RENEW:
                self._slots_of(offset)[offset].locked_until = now + self.limits.lock_seconds
            elif offset < self.start:
                del self.deleted[offset]
            else:
                before = self.slots[offset]
                self._set_state(offset, RESULTING_STATE[kind])
                if self.slots[offset].state in DONE:
                    self.unwritten[offset] = before
                changed.append(offset)
        return self._advance_start(changed)

    def begin_write(self) -> None:
        """Begin to write the current states. No other write may be in progress."""
        self.in_write, self.unwritten = self.unwritten, {}

    def end_write(self, *, is_stored: bool) -> None:
        """End the current write.

        If it has failed, the records that it would have acknowledged are acquired again, as before. They are delivered
        again when their locks expire, unless their members acknowledge them again.
        """
        ended, self.in_write = self.in_write, {}
        if is_stored:
            self._advance_start(list(ended))
        else:
            self.slots |= ended

    def release(self, member_id: str) -> list[int]:
        """Release the records of a member."""
        self.deleted = {o: slot for o, slot in self.deleted.items() if slot.member_id != member_id}
        return self._release(o for o, slot in self.slots.items() if slot.member_id == member_id)

    def expire(self, now: float) -> list[int]:
        """Release records whose acquisition lock has timed out."""
        self.deleted = {o: slot for o, slot in self.deleted.items() if slot.locked_until > now}
        return self._release(o for o, slot in self.slots.items() if slot.locked_until <= now)

    def archive_before(self, offset: int) -> list[int]:
        """Archive all records before `offset`, because the log no longer has them."""
        deleted = list(range(self.start, min(offset, self.end)))
        self.deleted |= {o: self.slots[o] for o in deleted if self.slots[o].state is RecordState.ACQUIRED}
        for oldest in list(self.deleted)[: -self.limits.max_records]:
            del self.deleted[oldest]
        self.unwritten = {o: slot for o, slot in self.unwritten.items() if o >= offset}
        self.in_write = {o: slot for o, slot in self.in_write.items() if o >= offset}
        for one in deleted:
            self._set_state(one, RecordState.ARCHIVED)
        moved = self._advance_start(deleted)
        if offset > self.end:
            self.start = self.end = offset
        return moved

    def restore(self, start: int, runs: Iterable[RecordRange]) -> None:
        """Restore the start offset and the states of records from the stored state."""
        for run in runs:
            for offset in range(max(run.first, start), run.last + 1):
                self.slots[offset] = RecordSlot(run.state, run.delivered)
        self.start = start
        self.end = max(self.slots, default=start - 1) + 1
        for offset in [o for o in self.slots if o < start]:
            del self.slots[offset]
        for offset in range(start, self.end):
            self.slots.setdefault(offset, RecordSlot(RecordState.AVAILABLE, 0))
        self._advance_start([])

    def runs(self, offsets: Iterable[int]) -> list[RecordRange]:
        """Group records into ranges of consecutive offsets with the same state and number of deliveries."""
        collected: list[RecordRange] = []
        for offset in sorted(offsets):
            slot = self.slots[offset]
            last = collected[-1] if collected else None
            if last is not None and (last.last + 1, last.state, last.delivered) == (offset, slot.state, slot.delivered):
                collected[-1] = last._replace(last=offset)
            else:
                collected.append(RecordRange(offset, offset, slot.state, slot.delivered))
        return collected

    def stored_runs(self) -> list[RecordRange]:
        """Return the ranges to store, from `stored_start` on.

        Acquired records are stored as available, without counting the current delivery.
        """
        return [
            run._replace(state=RecordState.AVAILABLE, delivered=run.delivered - 1)
            if run.state is RecordState.ACQUIRED
            else run
            for run in self.runs(range(self.stored_start, self.end))
        ]

    def _ensure_slot(self, offset: int) -> bool:
        """Create slots up to `offset`, as far as the limit allows. Return whether the record has a slot now."""
        if not self.slots and offset > self.end:
            self.start = self.end = offset  # there are no records in between, for example after compaction
        while self.end <= offset:
            if len(self.slots) >= self.limits.max_records:
                return False
            self.slots[self.end] = RecordSlot(RecordState.AVAILABLE if self.end == offset else RecordState.ARCHIVED, 0)
            self.end += 1
        return True

    def _validate(self, member_id: str, acknowledged: AcknowledgedRange) -> dict[int, AcknowledgeType]:
        size = acknowledged.last - acknowledged.first + 1
        if size < 1 or acknowledged.last >= self.end or len(acknowledged.types) not in (1, size):
            raise InvalidRequestError("the acknowledgement does not match the acquired records")
        types = {}
        for n, offset in enumerate(range(acknowledged.first, acknowledged.last + 1)):
            slot = self._slots_of(offset).get(offset)
            if slot is None or slot.state is not RecordState.ACQUIRED or slot.member_id != member_id:
                raise InvalidRecordStateError("the member has not acquired the record, or no longer has it")
            types[offset] = _type(acknowledged.types[0] if len(acknowledged.types) == 1 else acknowledged.types[n])
        return types

    def _slots_of(self, offset: int) -> dict[int, RecordSlot]:
        return self.deleted if offset < self.start else self.slots

    def _set_state(self, offset: int, state: RecordState) -> None:
        slot = self.slots[offset]
        if state is RecordState.AVAILABLE and slot.delivered >= self.limits.max_deliveries:
            state = RecordState.ARCHIVED
        self.slots[offset] = RecordSlot(state, slot.delivered)

    def _release(self, offsets: Iterable[int]) -> list[int]:
        held = [o for o in offsets if self.slots[o].state is RecordState.ACQUIRED]
        for offset in held:
            self._set_state(offset, RecordState.AVAILABLE)
        return self._advance_start(held)

    def _advance_start(self, changed: list[int]) -> list[int]:
        """Advance `start` past records that are done, up to the first one whose acknowledgement is not stored yet. Call
        the waiters if any record has changed. Return `changed`.
        """
        while self.start < self.end and self.slots[self.start].state in DONE and not self._is_provisional(self.start):
            del self.slots[self.start]
            self.start += 1
        for waiter in list(self.waiters) if changed else ():
            waiter()
        return changed

    def _is_provisional(self, offset: int) -> bool:
        return offset in self.unwritten or offset in self.in_write


def _type(number: int) -> AcknowledgeType:
    try:
        return AcknowledgeType(number)
    except ValueError:
        raise InvalidRequestError(f"unknown acknowledgement type {number}") from None
