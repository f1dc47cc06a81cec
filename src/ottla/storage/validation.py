"""Validation of produced batches, and their conversion to the topic's format, before the append.

Kafka's LogValidator.

Unless ottla.validate.records is `crc`, every record is validated (`records.validator`), so that consumers can read all
stored batches. Compressed batches are decompressed for this, up to message.max.decompressed.bytes. Batches are
compressed again only if the topic's compression.type differs from the producer's, and converted only if the topic's
message.format.version is that of an old Kafka; their records are then validated even with `crc`.

The error codes are those of Kafka 4, with one exception: for malformed records for which Kafka returns
UNKNOWN_SERVER_ERROR, or which it stores although consumers cannot read them, the error is INVALID_RECORD. These records
are listed in tests/interop/clients/test_compared_validation.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla import errors
from ottla.config.topic import LogConfig
from ottla.records import any_magic, compression
from ottla.records.batch import (
    CODEC_MASK,
    CONTROL_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    NO_PRODUCER_ID,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    read_header,
    set_max_timestamp,
    split,
    stamp_append_time,
    verify_crc,
    write_header,
)
from ottla.records.compression import CODEC_IDS, GZIP, LZ4, NONE, ZSTD, DecompressedTooLargeError
from ottla.records.decoder import decode_records
from ottla.records.validator import MAX_TIMESTAMP, MIN_TIMESTAMP, Validated, validate_records

if TYPE_CHECKING:
    from typing_extensions import Buffer

LOG_APPEND_TIME = "LogAppendTime"
ALL = "all"
"""The value of ottla.validate.records for which every record is validated."""
INLINE_BYTES = 512 * 1024
"""Maximum decompressed size in bytes of a compressed batch that is validated on the event loop, which takes about a
millisecond.
"""
INLINE_RECOMPRESSED_BYTES = 16 * 1024
"""Maximum size in bytes of batches that are compressed again on the event loop, which takes about 0.2 ms."""
MIN_MESSAGE_BYTES = 14
"""The smallest valid value of a batch's length field, in any format."""


class Batch(NamedTuple):
    """The header of a batch, and the start and end of the batch in the buffer."""

    header: BatchHeader
    start: int
    end: int


class RecordError(NamedTuple):
    """A record that caused the rejection of its batch: its index in the batch, and the reason."""

    batch_index: int
    message: str


class InvalidRecordsError(errors.InvalidRecordError):
    """Some records cannot be appended; `records` lists the first ones with reasons (KIP-467)."""

    def __init__(self, records: list[RecordError]) -> None:
        super().__init__(f"{len(records)} record(s) were rejected, the first because {records[0].message}")
        self.records = records


class InvalidTimestampsError(errors.InvalidTimestampError):
    """Some records have timestamps that the topic does not accept; `records` lists the first ones with reasons
    (KIP-467), and also records that lack a key in a compacted topic.
    """

    def __init__(self, records: list[RecordError]) -> None:
        super().__init__(f"{len(records)} record(s) were rejected, the first because {records[0].message}")
        self.records = records


def read_batches(view: memoryview) -> list[Batch]:
    """Return the batches of format 2 in `view`, after verifying their CRCs.

    Raises CorruptMessageError for a wrong CRC, or if `view` has no batch or other data.
    """
    if len(view) >= HEADER_BYTES and (header := read_header(view)).length + LOG_OVERHEAD == len(view):
        batches = [Batch(header, 0, len(view))]  # one batch, as clients send it
    else:
        batches = [Batch(*item) for item in split(view)]
        end = batches[-1].end if batches else 0
        if end != len(view) or not batches:
            raise errors.CorruptMessageError(f"{len(view) - end} bytes of {len(view)} are not a whole batch")
    for batch in batches:
        verify_crc(view, batch.start, batch.header)
    return batches


def read_copied_batches(view: memoryview) -> list[Batch]:
    """Return the batches of any format in `view`, as the leader has sent them, after verifying their CRCs.

    An incomplete last batch is left out: a leader that is a broker of Apache Kafka cuts off what exceeds the maximum
    size of the response. Raises CorruptMessageError for a wrong CRC, or if `view` has no whole batch.
    """
    batches = [Batch(*item) for item in any_magic.split(view)]
    if not batches:
        raise errors.CorruptMessageError(f"{len(view)} bytes are not a whole batch")
    for batch in batches:
        any_magic.verify(view, batch.start, batch.header)
    return batches


def check_size(batches: list[Batch], max_message_bytes: int) -> None:
    """Raise MessageTooLargeError if a batch is larger than max.message.bytes."""
    for batch in batches:
        size = batch.end - batch.start
        if size > max_message_bytes:
            raise errors.MessageTooLargeError(
                f"a batch of {size} bytes is larger than max.message.bytes={max_message_bytes}"
            )


def check_client_batch(header: BatchHeader) -> None:
    """Raise InvalidRecordError or InvalidTimestampError if the header of a producer's batch is invalid.

    That is so if it has attributes or a base offset that only the broker may set, or fields that contradict each other.
    """
    if header.base_offset:
        raise errors.InvalidRecordError(f"a batch has base offset {header.base_offset} before the broker assigns one")
    attributes, has_producer_id = header.attributes, header.producer_id > NO_PRODUCER_ID
    if attributes & CONTROL_MASK:
        raise errors.InvalidRecordError("clients may not write control records")
    if attributes & TIMESTAMP_TYPE_MASK:
        raise errors.InvalidTimestampError("only the broker may give a batch LogAppendTime")
    if header.count <= 0 or header.last_offset_delta + 1 != header.count:
        raise errors.InvalidRecordError(
            f"a batch of {header.count} records cannot end with offset delta {header.last_offset_delta}"
        )
    if has_producer_id and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise errors.InvalidRecordError(
            f"producer {header.producer_id} sent sequence {header.base_sequence} and epoch {header.producer_epoch}"
        )
    if attributes & TRANSACTIONAL_MASK and not has_producer_id:
        raise errors.InvalidRecordError("a transactional batch without a producer id")


def check_old_format(view: memoryview, batch: Batch, magic: int) -> None:
    """Raise UnsupportedForMessageFormatError if a batch has a producer id or record headers, which messages of formats
    0 and 1 cannot have.
    """
    header = batch.header
    if header.has_producer_id:
        kind = "transactional" if header.is_transactional else "idempotent"
        raise errors.UnsupportedForMessageFormatError(f"{kind} records cannot be stored in message format {magic}")
    if any(record.headers for record in decode_records(view, batch.start, header)):
        raise errors.UnsupportedForMessageFormatError(f"record headers cannot be stored in message format {magic}")


def in_old_format(view: memoryview, magic: int) -> tuple[memoryview, list[Batch]]:
    """Convert batches, whose offsets are set, to messages of format 0 or 1. Return a new buffer and its messages."""
    from ottla.records.conversion import down_converted

    written = memoryview(bytearray(down_converted(view, magic)))
    return written, [Batch(*item) for item in any_magic.split(written)]


def single_batch(view: memoryview) -> memoryview:
    """Return the only batch in `view`, of format 2. An incomplete batch after it is dropped.

    Like Kafka's ProduceRequest.validateRecords, raises InvalidRecordError if there is no whole batch, if there are
    several (perhaps only some of them could be appended), or for a message of an older format. Raises
    CorruptMessageError for an invalid length or an unknown format.
    """
    size = _whole_batch(view)
    if size is None:
        raise errors.InvalidRecordError(
            "Produce requests must have exactly one record batch per partition, this one has none"
        )
    if view[MAGIC_POSITION] != MAGIC:
        raise errors.InvalidRecordError(
            f"Produce requests since version 3 must have batches of message format 2, not {view[MAGIC_POSITION]}"
        )
    if size < len(view):
        if _whole_batch(view[size:]) is not None:
            raise errors.InvalidRecordError(
                "Produce requests must have exactly one record batch per partition, this one has more"
            )
        return view[:size]
    return view


def _whole_batch(view: memoryview) -> int | None:
    """Return the size of the batch at the start of `view`; None if it is incomplete.

    Raises CorruptMessageError if its length is invalid or its format unknown.
    """
    if len(view) < LOG_OVERHEAD:
        return None
    length = int.from_bytes(view[8:LOG_OVERHEAD], "big", signed=True)
    if length < MIN_MESSAGE_BYTES:
        raise errors.CorruptMessageError(f"a batch length of {length} is less than that of the smallest batch")
    if len(view) <= MAGIC_POSITION:
        return None
    if view[MAGIC_POSITION] > MAGIC:
        raise errors.CorruptMessageError(f"there is no message format {view[MAGIC_POSITION]}")
    size = LOG_OVERHEAD + length
    return size if size <= len(view) else None


def open_batch(view: memoryview, batch: Batch, max_bytes: int, *, inline: bool = False) -> Buffer:
    """Return the uncompressed records of a producer's batch.

    If the batch is compressed, raises InvalidRecordError if it cannot be decompressed, and MessageTooLargeError if the
    records have more than `max_bytes` bytes. With `inline`, raises LongValidationError for more than INLINE_BYTES if
    `max_bytes` is higher.
    """
    records = view[batch.start + HEADER_BYTES : batch.end]
    if not batch.header.attributes & CODEC_MASK:
        return records
    try:
        return compression.decompress_produced(
            batch.header.codec, records, min(max_bytes, INLINE_BYTES) if inline else max_bytes
        )
    except DecompressedTooLargeError as error:
        if inline and max_bytes > INLINE_BYTES:
            raise LongValidationError from None
        raise errors.MessageTooLargeError(
            f"a batch decompresses to more than message.max.decompressed.bytes={error.max_bytes}: "
            "send smaller batches, or raise it at the broker"
        ) from None
    except errors.CorruptMessageError as error:
        raise errors.InvalidRecordError(error.message) from None


def check_records(records: Buffer, header: BatchHeader, config: LogConfig, now_ms: int) -> Validated:
    """Validate the records of a batch.

    Raises InvalidRecordError if they are malformed or lack a key in a compacted topic, InvalidTimestampsError if a
    timestamp is out of the topic's bounds.
    """
    earliest, latest = MIN_TIMESTAMP, MAX_TIMESTAMP
    if config.message_timestamp_type != LOG_APPEND_TIME:
        earliest = max(now_ms - config.message_timestamp_before_max_ms, MIN_TIMESTAMP)
        latest = min(now_ms + config.message_timestamp_after_max_ms, MAX_TIMESTAMP)
    try:
        validated = validate_records(records, header.count, header.base_timestamp, earliest, latest, config.compacted)
    except errors.CorruptMessageError as error:
        raise errors.InvalidRecordError(error.message) from None
    if validated.out_of_bounds or validated.without_key:
        _reject_records(validated, earliest, latest)
    return validated


def _reject_records(validated: Validated, earliest: int, latest: int) -> None:
    reason = "a compacted topic takes no record without a key"
    record_errors = [RecordError(i, reason) for i in validated.without_key]
    record_errors += [
        RecordError(i, f"its timestamp {timestamp} is not within {earliest} to {latest}, the topic's bounds now")
        for i, timestamp in validated.out_of_bounds
    ]
    raise (InvalidTimestampsError if validated.out_of_bounds else InvalidRecordsError)(sorted(record_errors))


class Prepared(NamedTuple):
    """Validated batches with the topic's compression, and the buffer that has them, to which their positions refer."""

    data: memoryview
    batches: list[Batch]


class DeferredAppendError(Exception):
    """A batch cannot be appended at once without blocking the event loop."""


class LongValidationError(DeferredAppendError):
    """The validation of a batch would block the event loop for too long, so a worker has to do it."""


def prepare(view: memoryview, config: LogConfig, now_ms: int, *, inline: bool = False) -> Prepared:
    """Validate a producer's batches, and convert them to the topic's compression. Offsets are not assigned yet.

    The returned buffer is `view` itself, in which timestamps may be set, unless batches were compressed again. May be
    called in a worker. Raises the errors of a Produce response. `inline`: for calls on the event loop; raise
    LongValidationError if a batch would be decompressed to more than INLINE_BYTES, or if `view` is larger than
    INLINE_RECOMPRESSED_BYTES and would be compressed again.
    """
    batches = read_batches(view)
    check_size(batches, config.max_message_bytes)
    codec = target_codec(config)
    converts = codec is not None and any(batch.header.codec != codec for batch in batches)
    if inline and converts and len(view) > INLINE_RECOMPRESSED_BYTES:
        raise LongValidationError
    opened = []
    for i, batch in enumerate(batches):
        header = batch.header
        check_client_batch(header)
        validated = None
        if converts or config.validate_records == ALL or config.message_format < MAGIC:
            records = open_batch(view, batch, config.max_decompressed_bytes, inline=inline)
            validated = check_records(records, header, config, now_ms)
            opened.append(records)
        if config.message_format < MAGIC:
            check_old_format(view, batch, config.message_format)
        if config.message_timestamp_type == LOG_APPEND_TIME:
            stamp_append_time(view, batch.start, header, now_ms)
            batches[i] = Batch(read_header(view, batch.start), batch.start, batch.end)
        elif validated is not None and validated.max_timestamp != header.max_timestamp:
            set_max_timestamp(view, batch.start, header, validated.max_timestamp)
            batches[i] = Batch(read_header(view, batch.start), batch.start, batch.end)
    if codec is not None and converts:
        level = _level(codec, config)
        written = b"".join(
            _rewrite(batch.header, records, codec, level) for batch, records in zip(batches, opened, strict=True)
        )
        view = memoryview(bytearray(written))
        batches = [Batch(*item) for item in split(view)]
        check_size(batches, config.max_message_bytes)
    return Prepared(view, batches)


def target_codec(config: LogConfig) -> int | None:
    """Return the codec that the topic's batches must have; None if they keep the producer's codec."""
    if config.compression_type == "producer":
        return None
    return NONE if config.compression_type == "uncompressed" else CODEC_IDS[config.compression_type]


def _level(codec: int, config: LogConfig) -> int | None:
    if codec == GZIP:
        return None if config.compression_gzip_level == -1 else config.compression_gzip_level
    if codec == LZ4:
        return config.compression_lz4_level
    return config.compression_zstd_level if codec == ZSTD else None


def _rewrite(header: BatchHeader, records: Buffer, codec: int, level: int | None) -> bytes:
    """Return the batch with its records compressed by another codec. Its offsets, timestamps and producer stay."""
    packed = memoryview(compression.compress(codec, records, level))
    out = bytearray(HEADER_BYTES + len(packed))
    out[HEADER_BYTES:] = packed
    attributes = header.attributes & ~CODEC_MASK | codec
    write_header(out, 0, header._replace(length=len(out) - LOG_OVERHEAD, attributes=attributes))
    return bytes(out)
