"""The outcomes of transactions, from their markers in the log.

A batch of a transaction belongs to the first marker of its producer that follows it. Without such a marker below the
high watermark, the transaction is open: neither this batch nor any that follows may be read yet. This also determines
the last stable offset, and needs no state from before the batch, unlike the consumer's list of aborted transactions.
"""

from __future__ import annotations

from bisect import bisect_right

from ottla.records.batch import BatchHeader
from ottla.records.decoder import decode_records
from ottla.storage.log_reader import ReadOnlyLog, StoredBatch
from ottla.storage.producer_state import ABORT, read_marker


class TransactionOutcomes:
    """The transaction markers of one partition, which are read ahead only if there are transactional batches.

    Batches must be looked up in log order.
    """

    def __init__(self) -> None:
        self._markers: dict[int, tuple[list[int], list[bool]]] = {}
        """Offsets of the markers of each producer, and whether each is an abort."""
        self._scanned = 0
        """The offset up to which markers were read."""

    def is_aborted(self, header: BatchHeader, log: ReadOnlyLog, high_watermark: int) -> bool | None:
        """Return whether a transactional batch was aborted; None if its transaction is open."""
        outcome = self._lookup(header)
        if outcome is None and self._scanned < high_watermark:
            self._scan(log, max(self._scanned, header.base_offset), high_watermark)
            outcome = self._lookup(header)
        return outcome

    def _lookup(self, header: BatchHeader) -> bool | None:
        offsets, aborts = self._markers.get(header.producer_id, ([], []))
        next_marker = bisect_right(offsets, header.base_offset)
        return aborts[next_marker] if next_marker < len(offsets) else None

    def _scan(self, log: ReadOnlyLog, start: int, end: int) -> None:
        for batch in log.batches(start, end):
            self._scanned = batch.header.next_offset
            if batch.header.is_control:
                self._add(batch)

    def _add(self, batch: StoredBatch) -> None:
        header = batch.header
        for record in decode_records(batch.data, batch.position, header):
            marker = read_marker(record)
            if marker is not None:
                offsets, aborts = self._markers.setdefault(header.producer_id, ([], []))
                offsets.append(header.base_offset)
                aborts.append(marker.type == ABORT)

    def forget(self, before: int) -> None:
        """Drop the markers below an offset. Call it when all batches below that offset were looked up."""
        for producer_id, (offsets, aborts) in list(self._markers.items()):
            passed = bisect_right(offsets, before - 1)
            if passed == len(offsets):
                del self._markers[producer_id]
            else:
                del offsets[:passed], aborts[:passed]
