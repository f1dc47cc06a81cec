"""Iteration over records one by one. The position advances with each record, so that a commit never includes records
that have not been returned.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.client.consumer.fetch.fetch_buffer import Records
from ottla.client.consumer.subscription import Subscription
from ottla.records.consumer_record import ConsumerRecord


class RecordIterator:
    """The records of the last poll that the iteration has not returned yet.

    Not thread-safe: for the thread that uses the consumer, or the event loop while that thread waits for it.
    """

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._records: Records = {}
        self._rest: Iterator[ConsumerRecord] = iter(())

    @property
    def has_remaining(self) -> bool:
        """Whether there may be records that have not been returned."""
        return bool(self._records)

    def next(self) -> ConsumerRecord | None:
        """Return the next record; None if poll() has to be called for more."""
        return next(self._rest, None)

    def begin(self, records: Records) -> None:
        """Continue the iteration with the records of a new poll."""
        self._records = records
        self._rest = self._one_by_one(records)

    def return_remaining(self) -> None:
        """Drop the records that were not returned, so that they are fetched again."""
        rest, self._records, self._rest = self._records, {}, iter(())
        for tp in rest:
            state = self._subscription.partitions.get(tp)
            if state is not None and state.position is not None:
                state.restart_fetch()

    def _one_by_one(self, records: Records) -> Iterator[ConsumerRecord]:
        """Yield the records, and advance the positions. Partitions that are done are removed from `records`."""
        states = self._subscription.partitions
        behind = {tp: states[tp].position for tp, rows in records.items() if rows and tp in states}
        for tp in [tp for tp in records if tp not in behind]:
            del records[tp]
        for tp, rows in records.items():
            states[tp].position = rows[0].offset
        for tp, rows in list(records.items()):
            state = states[tp]
            generation = state.generation
            for record in rows:
                if state.generation != generation:
                    break
                state.position = record.offset + 1
                yield record
            if state.generation == generation:
                state.position = behind[tp]
            del records[tp]
