"""Print log segments, indexes, producer snapshots, transaction indexes and KRaft snapshots, as kafka-dump-log.sh
does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from ottla.cli.framework.command import Command
from ottla.cli.framework.options import Flag, Option
from ottla.errors import CorruptMessageError, KafkaStorageError
from ottla.records import compression, legacy_message_set
from ottla.records.batch import HEADER_BYTES, BatchHeader, verify
from ottla.records.decoder import Record, decode_records
from ottla.storage.files import LogFile
from ottla.storage.index import CorruptIndexError, Index, OffsetIndex, TimeIndex
from ottla.storage.producer_state import COMMIT, ProducerState, ProducerStates, read_marker
from ottla.storage.scan import headers
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from ottla.storage.txn_index import VERSION, TransactionIndex

MAX_MESSAGE_BYTES = 5 * 1024 * 1024
METADATA_SNAPSHOT_SUFFIX = ".checkpoint"
"""The suffix of snapshots of Kafka's metadata log (KRaft)."""
DECODERS = (
    "offsets_decoder",
    "transaction_log_decoder",
    "share_group_state_decoder",
    "cluster_metadata_decoder",
    "remote_log_metadata_decoder",
)
TIME_NAMES = ("CreateTime", "LogAppendTime")

Decoder = Callable[[Record], tuple[str | None, str | None]]
"""Returns the key and value of a record as text; None for a part that is not printed."""


def run(args: argparse.Namespace) -> int:
    """Print each file in `--files`; files with unknown suffixes are ignored with a warning. Return 1 at the first file
    that cannot be read, without printing the following ones, or if a decoder is not supported.
    """
    for option in (args.key_decoder_class, args.value_decoder_class):
        if option is not None and not option.endswith("StringDecoder"):
            print(f"ottla dump-log: there is no decoder {option}; only StringDecoder is supported", file=sys.stderr)
            return 1
    for name in args.files.split(","):
        path = Path(name.strip())
        print(f"Dumping {path}")
        show = SHOW.get(path.suffix)
        if show is None:
            print(f"Ignoring unknown file {path}", file=sys.stderr)
            continue
        if not path.is_file():
            print(f"ottla dump-log: there is no file {path}", file=sys.stderr)
            return 1
        try:
            show(path, args)
        except (KafkaStorageError, CorruptMessageError, OSError) as error:
            sys.stdout.flush()
            print(f"ottla dump-log: {path}: {error}", file=sys.stderr)
            return 1
    return 0


# Logs


def _show_log(path: Path, args: argparse.Namespace) -> None:
    print(_first_line(path))
    decode = _decoder(args)
    deep = args.deep_iteration or args.print_data_log or decode is not None
    if decode is None and args.print_data_log:
        decode = _as_text
    file = LogFile(path, writable=False)
    size = min(file.size(), args.max_bytes)
    position = 0
    while size - position >= HEADER_BYTES or _is_old(file, position, size):
        if _is_old(file, position, size):
            position = _show_old(file, position, size, decode if deep else None, deep=deep, args=args)
            break
        batch = next(headers(file, position, size), None)
        if batch is None:
            break
        _show_batch(file, *batch, deep=deep, decode=decode, args=args)
        position += batch[1].size_in_bytes
    if position < size and size == file.size():
        print(f"Found {size - position} invalid bytes at the end of {path.name}")


def _first_line(path: Path) -> str:
    if path.suffix != METADATA_SNAPSHOT_SUFFIX:
        return f"Log starting offset: {_base_offset(path)}"
    if path.stem == "bootstrap":
        return "KRaft bootstrap snapshot"
    offset, _, epoch = path.stem.partition("-")
    if not offset.isdigit() or not epoch.isdigit():
        raise KafkaStorageError("the file name of a snapshot is its end offset and epoch")
    return f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}"


def _is_old(file: LogFile, position: int, size: int) -> bool:
    """Return whether there is a message of magic 0 or 1 at this position."""
    head = file.read(position, min(17, size - position))
    return len(head) == 17 and head[16] < 2


def _show_batch(
    file: LogFile, position: int, header: BatchHeader, *, deep: bool, decode: Decoder | None, args: argparse.Namespace
) -> None:
    batch = file.read(position, header.size_in_bytes)
    is_valid = _is_valid(batch, header)
    horizon = f"OptionalLong[{header.base_timestamp}]" if header.has_delete_horizon else "OptionalLong.empty"
    print(
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.leader_epoch} isTransactional: {_java(header.is_transactional)} "
        f"isControl: {_java(header.is_control)} deleteHorizonMs: {horizon} position: {position} "
        f"{TIME_NAMES[header.timestamp_type]}: {header.max_timestamp} size: {header.size_in_bytes} "
        f"magic: {header.magic} compresscodec: {_codec_name(header.codec)} crc: {header.crc} isvalid: {_java(is_valid)}"
    )
    if deep:
        for record in decode_records(batch, 0, header):
            _show_record(record, header, decode, args)


def _is_valid(batch: bytes, header: BatchHeader) -> bool:
    try:
        verify(batch, 0, header)
    except CorruptMessageError:
        return False
    return True


def _show_record(record: Record, header: BatchHeader, decode: Decoder | None, args: argparse.Namespace) -> None:
    if header.is_control and args.skip_record_metadata:
        print()  # as Kafka's tool does
        return
    prefix = "|"
    if not args.skip_record_metadata:
        sequence = -1
        if header.base_sequence >= 0:
            sequence = (header.base_sequence + record.offset - header.base_offset) & 0x7FFFFFFF
        names = ",".join(name for name, _ in record.headers)
        prefix = (
            f"| offset: {record.offset} {TIME_NAMES[record.timestamp_type]}: {record.timestamp} "
            f"keySize: {_size(record.key)} valueSize: {_size(record.value)} sequence: {sequence} headerKeys: [{names}]"
        )
    if header.is_control:
        print(prefix + _marker_text(record))
    else:
        print(prefix + _contents(record, decode))


def _marker_text(record: Record) -> str:
    marker = read_marker(record)
    if marker is None:
        from ottla.cli.framework.record_texts import control_text  # only logs of a metadata quorum need it

        return control_text(record)
    kind = "COMMIT" if marker.type == COMMIT else "ABORT"
    return f" endTxnMarker: {kind} coordinatorEpoch: {marker.coordinator_epoch}"


def _contents(record: Record, decode: Decoder | None) -> str:
    if decode is None:
        return ""
    key, value = decode(record)
    return (f" key: {key}" if key is not None else "") + (f" payload: {value}" if value is not None else "")


def _show_old(
    file: LogFile, position: int, size: int, decode: Decoder | None, *, deep: bool, args: argparse.Namespace
) -> int:
    """Print messages of magic 0 and 1 up to the first incomplete one. Return the position after them in bytes."""
    data = file.read(position, size - position)
    for outer in legacy_message_set.messages(data):
        print(
            f"offset: {outer.offset} position: {position} {_old_time(outer)} size: {outer.size_in_bytes} "
            f"magic: {outer.magic} compresscodec: {_codec_name(outer.codec)} crc: {outer.crc} "
            f"isvalid: {_java(outer.is_valid)}"
        )
        position += outer.size_in_bytes
        for m in legacy_message_set.open_message(outer) if deep else ():
            prefix = "|"
            if not args.skip_record_metadata:
                prefix = (
                    f"| offset: {m.offset} {_old_time(m)} keySize: {_size(m.key)} valueSize: {_size(m.value)} "
                    f"isValid: {_java(m.is_valid)} crc: {m.crc}"
                )
            print(prefix + _contents(Record(m.offset, m.timestamp, 0, m.key, m.value, []), decode))
    return position


def _old_time(m: legacy_message_set.LegacyMessage) -> str:
    name = "NoTimestampType" if m.timestamp_type < 0 else TIME_NAMES[m.timestamp_type]
    return f"{name}: {m.timestamp}"


def _decoder(args: argparse.Namespace) -> Decoder | None:
    if not any(getattr(args, name) for name in DECODERS):
        return None
    from ottla.cli.framework import record_texts as texts  # other logs are printed without it

    if args.cluster_metadata_decoder:
        return texts.metadata_texts
    if args.remote_log_metadata_decoder:
        return texts.remote_log_texts
    if args.offsets_decoder:
        return partial(texts.coordinator_texts, texts.GROUP_RECORDS)
    if args.transaction_log_decoder:
        return partial(texts.coordinator_texts, texts.TRANSACTION_RECORDS)
    return partial(texts.coordinator_texts, texts.SHARE_STATE_RECORDS)


def _as_text(record: Record) -> tuple[str | None, str | None]:
    return _text(record.key), _text(record.value)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


# Indexes


def _show_index(path: Path, args: argparse.Namespace) -> None:
    index = _opened(OffsetIndex(path, _base_offset(path), 0), args)
    if index is None:
        return
    log = LogFile(path.with_suffix(LOG_SUFFIX), writable=False)
    size = log.size()
    wrong: list[tuple[int, int]] = []
    for relative, position in _entries(index):
        offset = index.base_offset + relative
        header = _header_at(log, position, size)
        last = -1 if header is None else header.last_offset
        if last != offset:
            wrong.append((offset, last))
        if not args.verify_index_only:
            print(f"offset: {offset} position: {position}")
    if wrong:
        print(f"Mismatches in :{path.absolute()}", file=sys.stderr)
    for offset, last in reversed(wrong):
        print(f"  Index offset: {offset}, log offset: {last}", file=sys.stderr)


def _show_time_index(path: Path, args: argparse.Namespace) -> None:
    index = _opened(TimeIndex(path, _base_offset(path), 0), args)
    if index is None:
        return
    log = LogFile(path.with_suffix(LOG_SUFFIX), writable=False)
    latest = {header.last_offset: header.max_timestamp for _, header in headers(log, 0, log.size())}
    complaints: dict[str, list[str]] = {}
    previous = -1
    for timestamp, relative in _entries(index):
        offset = index.base_offset + relative
        if offset not in latest:
            complaints.setdefault("The following indexed offsets are not found in", []).append(
                f"Indexed offset: {offset}, found log offset: {min((o for o in latest if o > offset), default=-1)}"
            )
        elif latest[offset] != timestamp:
            complaints.setdefault("Found timestamp mismatch in", []).append(
                f"  Index timestamp: {timestamp}, log timestamp: {latest[offset]}"
            )
        elif timestamp < previous:
            complaints.setdefault("Found out of order timestamp in", []).append(
                f"  Index timestamp: {timestamp}, Previously indexed timestamp: {previous}"
            )
        if not args.verify_index_only:
            print(f"timestamp: {timestamp} offset: {offset}")
        previous = timestamp
    for what, lines in complaints.items():
        print(f"{what} :{path.absolute()}", *lines, sep="\n", file=sys.stderr)


def _opened(index: Index, args: argparse.Namespace) -> Index | None:
    """Open the index for reading. If --index-sanity-check is set, check it, print that it is correct, and return
    None. Raises CorruptIndexError if its size is wrong or the check fails.
    """
    if args.index_sanity_check:
        index.open(writable=False)
        index.sanity_check()
        print(f"{index.path} passed sanity check.")
        return None
    size = index.path.stat().st_size
    if size % index.ENTRY.size:
        raise CorruptIndexError(f"{size} bytes are not a multiple of {index.ENTRY.size}")
    index.open(writable=False)
    return index


def _entries(index: Index) -> Iterator[tuple[int, int]]:
    for i in range(index.entries):
        yield index.entry(i)


def _header_at(log: LogFile, position: int, size: int) -> BatchHeader | None:
    try:
        batch = next(headers(log, position, size), None)
    except CorruptMessageError:
        return None
    return None if batch is None else batch[1]


# Producer snapshots and transaction indexes


def _show_snapshot(path: Path, args: argparse.Namespace) -> None:
    states = ProducerStates(path.parent)
    states.load_snapshot(path)
    for producer in states.producers.values():
        print(_producer_text(producer))


def _producer_text(p: ProducerState) -> str:
    first = "OptionalLong.empty" if p.first_txn_offset < 0 else f"OptionalLong[{p.first_txn_offset}]"
    text = (
        f"producerId: {p.id} producerEpoch: {p.epoch} coordinatorEpoch: {p.coordinator_epoch} "
        f"currentTxnFirstOffset: {first} lastTimestamp: {p.last_timestamp} "
    )
    if p.batches:
        b = p.batches[-1]
        text += (
            f"firstSequence: {b.first_sequence} lastSequence: {b.last_sequence} lastOffset: {b.last_offset} "
            f"offsetDelta: {b.offset_delta} timestamp: {b.timestamp}"
        )
    return text


def _show_txn_index(path: Path, args: argparse.Namespace) -> None:
    for aborted in TransactionIndex(path).entries:
        print(
            f"version: {VERSION} producerId: {aborted.producer_id} firstOffset: {aborted.first_offset} "
            f"lastOffset: {aborted.last_offset} lastStableOffset: {aborted.last_stable_offset}"
        )


SHOW: dict[str, Callable[[Path, argparse.Namespace], None]] = {
    LOG_SUFFIX: _show_log,
    METADATA_SNAPSHOT_SUFFIX: _show_log,
    INDEX_SUFFIX: _show_index,
    TIME_INDEX_SUFFIX: _show_time_index,
    SNAPSHOT_SUFFIX: _show_snapshot,
    TXN_INDEX_SUFFIX: _show_txn_index,
}
"""The function that prints a file, by the file's suffix."""


def _base_offset(path: Path) -> int:
    if not path.stem.isdigit():
        raise KafkaStorageError("the file name of a segment is the offset of its first record")
    return int(path.stem)


def _codec_name(codec: int) -> str:
    return compression.CODECS[codec].name if codec < len(compression.CODECS) else f"unknown({codec})"


def _java(flag: bool) -> str:
    return str(flag).lower()


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


COMMAND = Command(
    run=run,
    options=(
        Option(
            "--files FILE,…",
            "files to print, separated by commas: .log, .index, .timeindex, .snapshot, .txnindex or .checkpoint",
            required=True,
        ),
        Flag("--print-data-log", "print keys and values of records, as UTF-8 unless there is a decoder"),
        Flag(
            "--deep-iteration", "print each record, not only batches; implied by --print-data-log and by the decoders"
        ),
        Flag(
            "--skip-record-metadata",
            "leave out offsets, times, sizes and header names of records, but not of batches; keys and values remain "
            "with --print-data-log or a decoder; control records are empty lines",
        ),
        Flag("--offsets-decoder", "print records of __consumer_offsets as JSON"),
        Flag("--transaction-log-decoder", "print records of __transaction_state as JSON"),
        Flag("--share-group-state-decoder", "print records of __share_group_state as JSON"),
        Flag("--cluster-metadata-decoder", "print records of Kafka's __cluster_metadata (KRaft) as JSON"),
        Flag(
            "--remote-log-metadata-decoder",
            "print records of __remote_log_metadata as text in the form of Kafka's tool",
        ),
        Flag("--index-sanity-check", "only check offset and time indexes, as a broker does when it starts"),
        Flag("--verify-index-only", "only print differences between offset and time indexes and their log"),
        Option(
            "--max-bytes N",
            "maximum number of bytes to print of each .log and .checkpoint file",
            int,
            default=(1 << 31) - 1,
        ),
        Option(
            "--max-message-size N", "no effect; accepted because Kafka's tool has it", int, default=MAX_MESSAGE_BYTES
        ),
        Option("--key-decoder-class CLASS", "decoder of keys: only Kafka's StringDecoder (the default) is supported"),
        Option(
            "--value-decoder-class CLASS", "decoder of values: only Kafka's StringDecoder (the default) is supported"
        ),
    ),
)
