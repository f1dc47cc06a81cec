"""The records that the application has received and may still acknowledge. Kafka's `ShareFetch` and
`ShareInFlightBatch`.

Only for the caller's thread, or the event loop while the caller waits for it. `renewed` is an exception: the event loop
may append to it at any time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ottla.client.consumer.share.acknowledgements import AcknowledgeType, Source
from ottla.client.consumer.share.acquired_records import ShareConsumerRecord
from ottla.errors import IllegalStateError
from ottla.model import TopicPartition

Records = dict[TopicPartition, list[ShareConsumerRecord]]
ByOffset = dict[int, ShareConsumerRecord]


class InFlightRecords:
    """The records that poll() has returned and whose acknowledgements have not been passed to the fetcher, and those
    whose locks are being renewed.
    """

    def __init__(self) -> None:
        self._records: dict[Source, ByOffset] = {}
        """Records without an acknowledgement, or with one in `_acknowledged`."""
        self._acknowledged: dict[Source, dict[int, int]] = {}
        """Acknowledgements that `take_acknowledged` has not returned yet: the type of each offset."""
        self._renewing: dict[Source, ByOffset] = {}
        self.renewed: deque[tuple[Source, list[int], bool]] = deque()
        """The results of renewals: source, offsets, and whether the locks were renewed."""

    def add(self, source: Source, records: Iterable[ShareConsumerRecord], acknowledged: dict[int, int]) -> None:
        """Add records that poll() returns, and acknowledgements by the consumer itself (of gaps, and of records
        that cannot be decoded).
        """
        self._records.setdefault(source, {}).update((record.offset, record) for record in records)
        if acknowledged:
            self._acknowledged.setdefault(source, {}).update(acknowledged)

    def acknowledge(self, tp: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        """Acknowledge a record. Raises IllegalStateError for a record that is not in flight."""
        for source, records in self._records.items():
            # A record that could not be deserialized is acknowledged already; the application may reject it instead.
            if source.tp == tp and (offset in records or offset in self._acknowledged.get(source, ())):
                self._acknowledged.setdefault(source, {})[offset] = kind
                return
        raise IllegalStateError(f"{tp}, offset {offset}: the record cannot be acknowledged: it is not in flight")

    def accept_all(self) -> None:
        """Acknowledge all records that have no acknowledgement yet with ACCEPT (implicit mode)."""
        for source, records in self._records.items():
            acknowledged = self._acknowledged.setdefault(source, {})
            for offset in records:
                acknowledged.setdefault(offset, AcknowledgeType.ACCEPT)

    @property
    def has_unacknowledged(self) -> bool:
        """Whether any record has no acknowledgement."""
        return any(
            records.keys() - self._acknowledged.get(source, {}).keys() for source, records in self._records.items()
        )

    @property
    def has_renewals(self) -> bool:
        """Whether records have been set aside whose renewal `take_renewed` has not handled yet."""
        return bool(self._renewing)

    def take_acknowledged(self) -> dict[Source, dict[int, int]]:
        """Return the pending acknowledgements, and remove their records. Records with RENEW are set aside for
        `take_renewed`.
        """
        taken = {source: types for source, types in self._acknowledged.items() if types}
        self._acknowledged = {}
        for source, types in taken.items():
            records = self._records.get(source, {})
            for offset, kind in types.items():
                record = records.pop(offset, None)
                if record is not None and kind == AcknowledgeType.RENEW:
                    self._renewing.setdefault(source, {})[offset] = record
        self._records = {source: records for source, records in self._records.items() if records}
        return taken

    def take_renewed(self) -> Records:
        """Return the records whose locks were renewed, and put them in flight again. Records whose renewal failed are
        dropped.
        """
        result: Records = {}
        while self.renewed:
            source, offsets, succeeded = self.renewed.popleft()
            renewing = self._renewing.get(source, {})
            records = [renewing.pop(offset) for offset in offsets if offset in renewing]
            if not renewing:
                self._renewing.pop(source, None)
            if succeeded and records:
                self.add(source, records, {})
                result.setdefault(source.tp, []).extend(records)
        return result

    def clear(self) -> None:
        """Remove all records and acknowledgements. Called after the share sessions have been closed."""
        self._records, self._acknowledged, self._renewing = {}, {}, {}
        self.renewed.clear()
