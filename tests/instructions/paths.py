"""Runs each compiled path several times in a forked child, for a tool that counts the instructions of each process.

    valgrind --tool=cachegrind --cachegrind-out-file=DIR/%p python paths.py

Prints a line per child: path, records, process id. A second child runs the path twice as often, so that
the difference is due to the path alone.
"""

from __future__ import annotations

import gc
import os
from array import array
from collections.abc import Callable

from ottla.records import builder as builders
from ottla.records.appender import DirectAppender, DirectSender, OpenBatch, PartitionAppender, TopicAppender
from ottla.records.batch import HEADER_BYTES, split
from ottla.records.column_decoder import ColumnDecoder
from ottla.records.columns import BinaryColumn
from ottla.records.consumer_record import decode_consumer_records
from ottla.records.decoder import decode_records
from ottla.records.murmur2 import murmur2
from ottla.records.scanner import Scanner
from ottla.records.validator import MAX_TIMESTAMP, MIN_TIMESTAMP, validate_records

RECORDS = 500
"""Records of a batch, and batches of a segment."""
VALUES = [(b"%08d" % i) * 12 + b"abcd" for i in range(RECORDS)]
KEYS = [b"k%09d" % i for i in range(RECORDS)]
TIMESTAMP = 1_700_000_000_000
BATCH_BYTES = 65_536


class Topic(TopicAppender):
    """A substitute for a topic's queues in the producer."""

    def __init__(self) -> None:
        batch = OpenBatch(builders.BatchBuilder(bytearray(BATCH_BYTES)), None)
        super().__init__(1, [PartitionAppender(batch)])
        self.version = 1


class Producer(DirectSender):
    """A substitute for the producer."""

    def __init__(self) -> None:
        direct = DirectAppender({"t": Topic()}, print)
        super().__init__(direct)
        direct.version = 1
        direct.enabled = True


def build() -> bytes:
    """Build a batch record by record."""
    builder = builders.BatchBuilder(bytearray(BATCH_BYTES))
    for key, value in zip(KEYS, VALUES, strict=True):
        builder.append(TIMESTAMP, key, value)
    return bytes(builder.close())


BATCH = build()
HEADER = next(iter(split(memoryview(BATCH))))[0]
PLAIN = memoryview(BATCH)[HEADER_BYTES:]
OFFSETS = array("i", [i * len(VALUES[0]) for i in range(RECORDS + 1)])
COLUMN = BinaryColumn(memoryview(OFFSETS), b"".join(VALUES))
ROWS = memoryview(array("q", range(RECORDS)))
SMALL = builders.BatchBuilder(bytearray(300))
SMALL.append(TIMESTAMP, None, b"v" * 100)
SMALL_BATCH = bytes(SMALL.close())


def segment() -> bytes:
    """Return batches of one record with consecutive offsets."""
    out = bytearray(SMALL_BATCH * RECORDS)
    for i in range(RECORDS):
        at = i * len(SMALL_BATCH)
        out[at : at + 8] = i.to_bytes(8, "big")
    return bytes(out)


SEGMENT = segment()


def append_columns() -> None:
    """Build a batch from columns."""
    builder = builders.BatchBuilder(bytearray(BATCH_BYTES))
    assert builder.append_columns(TIMESTAMP, None, COLUMN, ROWS) == RECORDS
    builder.close()


def send() -> None:
    """Send records with the producer's fast path."""
    producer = Producer()
    for key, value in zip(KEYS, VALUES, strict=True):
        producer.send("t", value, key)


def validate() -> None:
    """Validate a batch."""
    validate_records(PLAIN, RECORDS, HEADER.base_timestamp, MIN_TIMESTAMP, MAX_TIMESTAMP, False)


def decode() -> None:
    """Decode a batch to objects."""
    decode_records(BATCH, 0, HEADER)


def decode_consumer() -> None:
    """Decode a batch to records of the consumer."""
    decode_consumer_records(BATCH, 0, HEADER, 0, "t", 0)


def decode_columns() -> None:
    """Decode a batch to columns."""
    ColumnDecoder().add_batch(BATCH, 0, HEADER)


def scan() -> None:
    """Scan a segment, with a batch per record."""
    Scanner(0, 0, check_crc=True).feed(SEGMENT)


def hash_keys() -> None:
    for key in KEYS:
        murmur2(key)


PATHS: dict[str, Callable[[], object]] = {
    "builder": build,
    "append_columns": append_columns,
    "send": send,
    "validator": validate,
    "decoder": decode,
    "consumer_record": decode_consumer,
    "column_decoder": decode_columns,
    "scanner": scan,
    "murmur2": hash_keys,
}
TIMES = (4, 8)


def main() -> None:
    """Run each path in two children, one after the other."""
    for run in PATHS.values():  # initialization at the first call
        run()
    gc.disable()
    gc.freeze()
    for name, run in PATHS.items():
        for times in TIMES:
            child = os.fork()
            if not child:
                for _ in range(times):
                    run()
                os._exit(0)
            os.waitpid(child, 0)
            print(name, times * RECORDS, child, flush=True)


if __name__ == "__main__":
    main()
