"""What a leader checks and changes in the batches of a produce request before it appends them. Kafka's LogValidator.

Nothing is decoded unless the topic asks for it: keys are looked at for a compacted topic, records are written anew
where the topic's compression.type is not the producer's, or its message.format.version is that of an old Kafka.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.config.topic import LogConfig
from ottla.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    UnsupportedForMessageFormatError,
)
from ottla.records import formats
from ottla.records.batch import HEADER_BYTES, MAGIC, NO_PRODUCER_ID, BatchHeader, read_header, split, stamp_append_time
from ottla.records.compression import CODEC_IDS, GZIP, LZ4, NONE, ZSTD
from ottla.records.decoder import decode_records

LOG_APPEND_TIME = "LogAppendTime"
NO_TIMESTAMP = -1


class Batch(NamedTuple):
    """A checked batch and where it lies in the buffer."""

    header: BatchHeader
    start: int
    end: int


class RecordError(NamedTuple):
    """A record that made its batch be refused: its place in the batch, and why."""

    batch_index: int
    message: str


class InvalidRecordsError(InvalidRecordError):
    """Records that may not be appended; `records` tells which and why (KIP-467)."""

    def __init__(self, records: list[RecordError]) -> None:
        super().__init__(f"{len(records)} record(s) were refused, the first because {records[0].message}")
        self.records = records


class InvalidTimestampsError(InvalidTimestampError):
    """Records with times that the topic does not take; `records` tells which and why (KIP-467)."""

    def __init__(self, records: list[RecordError]) -> None:
        super().__init__(f"{len(records)} record(s) were refused, the first because {records[0].message}")
        self.records = records


def read_batches(view: memoryview, *, oldest_format: int = MAGIC) -> list[Batch]:
    """The batches that fill `view`, each with its CRC checked. Raises CorruptMessageError for anything else in it."""
    found = []
    end = 0
    for header, start, end in formats.split(view):  # the last end is looked at below
        if header.magic < oldest_format:
            raise CorruptMessageError(f"a message of format {header.magic} where format {oldest_format} is wanted")
        formats.verify(view, start, header)
        found.append(Batch(header, start, end))
    if end != len(view) or not found:
        raise CorruptMessageError(f"{len(view) - end} bytes of {len(view)} are no whole batch")
    return found


def check_size(batches: list[Batch], max_message_bytes: int) -> None:
    """Raise MessageTooLargeError for a batch above max.message.bytes."""
    for batch in batches:
        size = batch.end - batch.start
        if size > max_message_bytes:
            raise MessageTooLargeError(f"a batch of {size} bytes where max.message.bytes is {max_message_bytes}")


def check_client_batch(header: BatchHeader) -> None:
    """Raise where a producer's batch claims what only a broker may, or counts wrongly."""
    if header.is_control:
        raise InvalidRecordError("clients may not write control records")
    if header.timestamp_type:
        raise InvalidTimestampError("only the broker may give a batch LogAppendTime")
    if header.count <= 0 or header.last_offset_delta + 1 != header.count:
        raise InvalidRecordError(
            f"a batch of {header.count} records cannot end with offset delta {header.last_offset_delta}"
        )
    if header.has_producer_id and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise InvalidRecordError(
            f"producer {header.producer_id} sent sequence {header.base_sequence} and epoch {header.producer_epoch}"
        )
    if header.is_transactional and header.producer_id == NO_PRODUCER_ID:
        raise InvalidRecordError("a transactional batch without a producer id")


def check_old_format(view: memoryview, batch: Batch, magic: int) -> None:
    """Raise UnsupportedForMessageFormatError for what messages of format 0 and 1 have no room for."""
    header = batch.header
    if header.has_producer_id:
        kind = "transactional" if header.is_transactional else "idempotent"
        raise UnsupportedForMessageFormatError(f"{kind} records cannot be stored in message format {magic}")
    if any(record.headers for record in decode_records(view, batch.start, header)):
        raise UnsupportedForMessageFormatError(f"record headers cannot be stored in message format {magic}")


def in_old_format(view: memoryview, magic: int) -> tuple[memoryview, list[Batch]]:
    """Batches that have their offsets, as messages of format 0 or 1."""
    from ottla.records.message_set import from_batches

    written = memoryview(bytearray(from_batches(view, magic)))
    return written, [Batch(*found) for found in formats.split(written)]


def check_records(view: memoryview, batch: Batch, config: LogConfig, now_ms: int) -> None:
    """Raise for records without a key in a compacted topic, and for times out of the topic's bounds.

    Records are only decoded where the topic's options or the header's highest timestamp ask for it.
    """
    errors: list[RecordError] = []
    wrong_times = False
    if config.compacted:
        errors += _without_key(view, batch)
    if config.message_timestamp_type != LOG_APPEND_TIME and _may_be_out_of_bounds(batch.header, config, now_ms):
        found = _out_of_bounds(view, batch, config, now_ms)
        wrong_times = bool(found)
        errors += found
    if wrong_times:
        raise InvalidTimestampsError(sorted(errors))
    if errors:
        raise InvalidRecordsError(errors)


def _without_key(view: memoryview, batch: Batch) -> list[RecordError]:
    """Compaction could never tell these from others."""
    from ottla.records.column_decoder import ColumnDecoder

    decoder = ColumnDecoder()
    decoder.add_batch(view, batch.start, batch.header)
    if not decoder.take().keys.null_count:
        return []
    records = decode_records(view, batch.start, batch.header)
    reason = "a compacted topic takes no record without a key"
    return [RecordError(i, reason) for i, r in enumerate(records) if r.key is None]


def _may_be_out_of_bounds(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    too_early_is_possible = config.message_timestamp_before_max_ms < now_ms
    return too_early_is_possible or header.max_timestamp - now_ms > config.message_timestamp_after_max_ms


def _out_of_bounds(view: memoryview, batch: Batch, config: LogConfig, now_ms: int) -> list[RecordError]:
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    return [
        RecordError(i, f"its timestamp {r.timestamp} is not within {earliest} to {latest}, the topic's bounds now")
        for i, r in enumerate(decode_records(view, batch.start, batch.header))
        if r.timestamp != NO_TIMESTAMP and not earliest <= r.timestamp <= latest
    ]


def prepare(view: memoryview, config: LogConfig, now_ms: int) -> tuple[memoryview, list[Batch]]:
    """Check a producer's batches and bring them into the topic's form; offsets are not assigned yet.

    Returns the buffer to write, which is `view` itself unless batches were compressed anew. Raises what a producer is
    answered with.
    """
    batches = read_batches(view)
    check_size(batches, config.max_message_bytes)
    append_time = config.message_timestamp_type == LOG_APPEND_TIME
    for batch in batches:
        check_client_batch(batch.header)
        if config.message_format < MAGIC:
            check_old_format(view, batch, config.message_format)
        check_records(view, batch, config, now_ms)
    view, batches = _compress(view, batches, config)
    check_size(batches, config.max_message_bytes)
    if append_time:
        batches = [_stamp(view, batch, now_ms) for batch in batches]
    return view, batches


def _stamp(view: memoryview, batch: Batch, now_ms: int) -> Batch:
    stamp_append_time(view, batch.start, batch.header, now_ms)
    return Batch(read_header(view, batch.start), batch.start, batch.end)


def target_codec(config: LogConfig) -> int | None:
    """The codec that the topic's batches must have; None to keep the producer's."""
    if config.compression_type == "producer":
        return None
    return NONE if config.compression_type == "uncompressed" else CODEC_IDS[config.compression_type]


def _level(codec: int, config: LogConfig) -> int | None:
    if codec == GZIP:
        return None if config.compression_gzip_level == -1 else config.compression_gzip_level
    if codec == LZ4:
        return config.compression_lz4_level
    return config.compression_zstd_level if codec == ZSTD else None


def _compress(view: memoryview, batches: list[Batch], config: LogConfig) -> tuple[memoryview, list[Batch]]:
    codec = target_codec(config)
    if codec is None or all(batch.header.codec == codec for batch in batches):
        return view, batches
    written = b"".join(rewrite(view, batch, codec, _level(codec, config)) for batch in batches)
    fresh = memoryview(bytearray(written))
    return fresh, [Batch(*found) for found in split(fresh)]


def rewrite(view: memoryview, batch: Batch, codec: int, level: int | None) -> bytes:
    """The batch with its records compressed by another codec. Everything else in it stays."""
    from ottla.records import compression
    from ottla.records.batch import CODEC_MASK, LOG_OVERHEAD, write_header
    from ottla.records.decoder import open_records

    raw = open_records(view, batch.start, batch.header)
    packed = memoryview(compression.compress(codec, raw, level))
    out = bytearray(HEADER_BYTES + len(packed))
    out[HEADER_BYTES:] = packed
    attributes = batch.header.attributes & ~CODEC_MASK | codec
    write_header(out, 0, batch.header._replace(length=len(out) - LOG_OVERHEAD, attributes=attributes))
    return bytes(out)
