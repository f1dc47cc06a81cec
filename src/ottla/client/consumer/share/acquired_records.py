"""Decoding of the acquired records of one partition in a share fetch response. Kafka's `ShareCompletedFetch`.

A response contains whole batches, of which only the acquired records belong to this member. Decoding happens
in the caller's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.client.consumer.fetch.completed_fetch import CompletedFetch, Convert
from ottla.client.consumer.share.acknowledgements import GAP, AcknowledgeType, Source
from ottla.client.consumer.subscription import PartitionState
from ottla.errors import KafkaError, RecordDeserializationError
from ottla.logs import listed
from ottla.protocol.messages.share_fetch import AcquiredRecords as AcquiredRange
from ottla.records.consumer_record import ConsumerRecord

log = logging.getLogger("ottla.client")

ALL: Final = 2**31 - 1
LOGGED_FAILURES: Final = 3
"""Maximum number of errors in the log line about those that are not raised."""


class ShareConsumerRecord(ConsumerRecord):
    """A record as a share consumer returns it, with its delivery count."""

    delivery_count: int

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, delivery_count={self.delivery_count})"


class DecodedRecords(NamedTuple):
    """The records to return, the acknowledgement types of the offsets that the consumer itself acknowledges, and the
    error of a record or batch that cannot be decoded (None if there is none).
    """

    records: list[ShareConsumerRecord]
    acknowledged: dict[int, int]
    error: KafkaError | None


class AcquiredRecords:
    """The acquired records of one partition from one response."""

    __slots__ = ("data", "ranges", "source")

    def __init__(self, source: Source, data: memoryview, ranges: Sequence[AcquiredRange]) -> None:
        self.source = source
        self.data = data
        self.ranges = ranges

    def decode(
        self, key: Convert | None, value: Convert | None, *, check_crc: bool, max_decompressed_bytes: int
    ) -> DecodedRecords:
        """Decode all acquired records.

        As in Java, the result releases records that cannot be deserialized, rejects the records of a damaged batch (all
        records if the data cannot be split into batches), and acknowledges offsets without a record as gaps. Further
        errors after the first are logged.
        """
        deliveries = {
            offset: run.delivery_count for run in self.ranges for offset in range(run.first_offset, run.last_offset + 1)
        }
        if not deliveries:
            return DecodedRecords([], {}, None)
        failures: list[KafkaError] = []
        rows: list[ConsumerRecord] = []
        damaged: dict[int, int] = {}
        try:
            fetch = self._fetch(min(deliveries), check_crc, max_decompressed_bytes)
            while True:
                try:
                    decoded = fetch.next_records(ALL, None, None)
                except KafkaError as batch_error:
                    failures.append(batch_error)
                    damaged |= _skip(fetch, deliveries)
                    continue
                if not decoded:
                    break
                rows += decoded
        except KafkaError as data_error:
            return DecodedRecords([], dict.fromkeys(deliveries, int(AcknowledgeType.REJECT)), data_error)
        records: list[ShareConsumerRecord] = []
        acknowledged = {**dict.fromkeys(deliveries, GAP), **damaged}
        for row in rows:
            if row.offset in deliveries:
                try:
                    records.append(_record(row, deliveries[row.offset], key, value))
                    del acknowledged[row.offset]
                except RecordDeserializationError as record_error:
                    failures.append(record_error)
                    acknowledged[row.offset] = AcknowledgeType.RELEASE
        if len(failures) > 1:
            log.warning(
                "%s: besides the error that poll() raises, batches or records of one response cannot be decoded (%d); "
                "the records of damaged batches are rejected, and records that cannot be deserialized are released: %s",
                self.source.tp,
                len(failures) - 1,
                listed(failures[1:], LOGGED_FAILURES),
            )
        return DecodedRecords(records, acknowledged, failures[0] if failures else None)

    def _fetch(self, first: int, check_crc: bool, max_decompressed_bytes: int) -> CompletedFetch:
        return CompletedFetch(
            PartitionState(self.source.tp),
            self.data,
            first,
            limit=ALL,
            check_crc=check_crc,
            aborted=None,  # share.isolation.level is a config of the group, which the broker applies
            max_decompressed_bytes=max_decompressed_bytes,
        )


def _skip(fetch: CompletedFetch, deliveries: dict[int, int]) -> dict[int, int]:
    """Skip a batch that cannot be decoded. Return the acknowledgements that reject its records."""
    header = fetch.skip_batch()
    offsets = range(header.base_offset, header.next_offset)
    return {offset: int(AcknowledgeType.REJECT) for offset in deliveries if offset in offsets}


def _record(
    row: ConsumerRecord, delivery_count: int, key: Convert | None, value: Convert | None
) -> ShareConsumerRecord:
    new_key, new_value, is_key = row.key, row.value, True
    try:
        if key is not None:
            new_key = key(row.topic, row.key, row.headers)
        is_key = False
        if value is not None:
            new_value = value(row.topic, row.value, row.headers)
    except KafkaError as error:
        tp = row.topic_partition
        raise RecordDeserializationError(
            f"{tp}, offset {row.offset}: {error}", tp, row.offset, is_key=is_key, record=row
        ) from error
    record = ShareConsumerRecord(*row.with_data(new_key, new_value))
    record.delivery_count = delivery_count
    return record
