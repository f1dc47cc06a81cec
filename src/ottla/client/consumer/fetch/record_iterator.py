"""Records one by one: positions move with the records that were handed out, so that commits are never ahead of them."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.client.consumer.fetch.fetch_buffer import Records
from ottla.client.consumer.records import ConsumerRecord
from ottla.client.consumer.subscription import Subscription


class RecordIterator:
    """What an iteration has taken and not handed out yet. In the thread that iterates."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._records: Records = {}
        self._rest: Iterator[ConsumerRecord] = iter(())

    @property
    def has_remaining(self) -> bool:
        """Whether something is left."""
        return bool(self._records)

    def next(self) -> ConsumerRecord | None:
        """The next record; None when new ones have to be taken."""
        return next(self._rest, None)

    def begin(self, records: Records) -> None:
        """Go on with these."""
        self._records = records
        self._rest = self._one_by_one(records)

    def return_remaining(self) -> None:
        """What was not handed out is to be fetched again."""
        rest, self._records, self._rest = self._records, {}, iter(())
        for tp in rest:
            state = self._subscription.partitions.get(tp)
            if state is not None and state.position is not None:
                state.restart_fetch()

    def _one_by_one(self, records: Records) -> Iterator[ConsumerRecord]:
        """Partitions that are done with leave `records`."""
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
