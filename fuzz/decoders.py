"""Pass damaged messages and batches to the decoders, which must accept or reject them.

make fuzz ARGS="--seconds 60 --seed 7"
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any

from fuzz import security, state
from fuzz.damage import damaged
from ottla.config.topic import LogConfig
from ottla.errors import (
    CorruptMessageError,
    InvalidRecordError,
    KafkaError,
    MalformedMessageError,
    MessageTooLargeError,
    UnsupportedCompressionTypeError,
)
from ottla.protocol.apis import APIS
from ottla.protocol.header import decode_request_header
from ottla.protocol.message import decode, encode
from ottla.records import any_magic, compression, legacy_message_set
from ottla.records.batch import HEADER_BYTES, LOG_OVERHEAD, reseal, split
from ottla.records.builder import BatchBuilder
from ottla.records.conversion import down_converted
from ottla.records.decoder import decode_records, records
from ottla.records.scanner import Scanner
from ottla.storage import validation

Target = Callable[[random.Random], None]


def messages(r: random.Random) -> None:
    """Return a message of any API and version."""
    api = r.choice(APIS)
    cls: Any = r.choice([api.request, api.response])
    version = r.choice(cls.VERSIONS)
    try:
        good = bytes(encode(cls(), version))
    except KafkaError:
        good = b""
    data = damaged(good, r) if r.random() < 0.5 and good else r.randbytes(r.randint(0, 200))
    try:
        decode(cls, data, version)
    except MalformedMessageError:
        pass


def headers(r: random.Random) -> None:
    """Return a request header."""
    try:
        decode_request_header(r.randbytes(r.randint(0, 40)))
    except MalformedMessageError:
        pass


def batches(r: random.Random) -> None:
    """Decode a record batch in any codec without checking its checksum, so that the decoder sees the damage."""
    builder = BatchBuilder(bytearray(5000), r.choice(compression.CODECS).id)
    for i in range(r.randint(1, 20)):
        builder.append(1_700_000_000_000 + i, r.randbytes(r.randint(0, 20)), r.randbytes(r.randint(0, 100)))
    data = damaged(bytes(builder.close()), r)
    try:
        for _ in split(data):
            pass
        for _ in records(data, check_crc=False):
            pass
    except (CorruptMessageError, UnsupportedCompressionTypeError):
        pass


def produced(r: random.Random) -> None:
    """Validate a producer's batch with a valid CRC: consumers must be able to read what a leader accepts."""
    builder = BatchBuilder(bytearray(5000), r.choice(compression.CODECS).id)
    for i in range(r.randint(1, 5)):
        headers = [("h", r.randbytes(3))] * r.randint(0, 2)
        builder.append(1_700_000_000_000 + i, r.randbytes(r.randint(0, 20)), r.randbytes(r.randint(0, 50)), headers)
    data = bytearray(damaged(bytes(builder.close()), r))
    if len(data) < HEADER_BYTES:
        return
    data[8:12] = (len(data) - LOG_OVERHEAD).to_bytes(4, "big")
    reseal(data, 0, len(data))
    try:
        view, taken = validation.prepare(memoryview(data), LogConfig(), 1_700_000_000_000)
    except KafkaError:
        return
    (batch,) = taken
    read = decode_records(view, batch.start, batch.header)
    assert [record.offset for record in read] == list(range(batch.header.count)), read
    assert max(-1, *(record.timestamp for record in read)) == batch.header.max_timestamp


def old_messages(r: random.Random) -> None:
    """Decode messages of magic 0 or 1 among newer batches, some damaged and with a recomputed checksum."""
    builder = BatchBuilder(bytearray(5000), r.randrange(4))
    for i in range(r.randint(1, 9)):
        builder.append(1_700_000_000_000 + i, r.randbytes(r.randint(0, 9)), r.randbytes(r.randint(0, 50)))
    new = bytes(builder.close())
    data = bytearray(damaged(down_converted(new, r.randrange(2)), r))
    if r.random() < 0.7 and len(data) > any_magic.MIN_BATCH_BYTES:
        end = 12 + int.from_bytes(data[8:12], "big")
        data[12:16] = zlib.crc32(data[16:end]).to_bytes(4, "big")
    data += r.choice((b"", new))
    for read in (_read_any, legacy_message_set.to_batches, lambda d: down_converted(d, 0)):
        try:
            read(data)
        except (CorruptMessageError, InvalidRecordError, MessageTooLargeError, UnsupportedCompressionTypeError):
            pass


def _read_any(data: bytearray) -> None:
    for header, start, _ in any_magic.split(data):
        any_magic.decode_records(data, start, header)


def log_files(r: random.Random) -> None:
    """Scan a log file as recovery does: batches of any format, in chunks of any size."""
    builder = BatchBuilder(bytearray(2000), 0)
    builder.append(1_700_000_000_000, b"k", b"v" * r.randint(0, 90))
    new = bytes(builder.close())
    good = b"".join(r.choice((new, down_converted(new, r.randrange(2)))) for _ in range(5))
    data = memoryview(damaged(good, r))
    scanner = Scanner(0, 0, check_crc=r.random() < 0.5, contiguous_from=r.choice((0, 1 << 62)))
    while not scanner.damaged and len(data) - scanner.position >= scanner.needed:
        before = scanner.position, scanner.needed
        scanner.feed(data[scanner.position : scanner.position + max(scanner.needed, r.randint(1, 300))])
        assert scanner.damaged or (scanner.position, scanner.needed) != before, "the walk gets nowhere"
    assert 0 <= scanner.position <= len(data)


TARGETS: tuple[Target, ...] = (
    messages,
    headers,
    batches,
    produced,
    old_messages,
    log_files,
    state.group_state,
    state.versioned_data,
    state.controller_metadata,
    state.state_files,
    security.sasl_tokens,
    security.first_requests,
    security.certificate_names,
)


def main() -> int:
    """Run all targets in turns; the first failure prints its seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, help="run this one case of every target")
    args = parser.parse_args()
    if args.seed is not None:
        for target in TARGETS:
            target(random.Random(args.seed))
        return 0
    first = random.randrange(10**9)
    end = time.monotonic() + args.seconds
    count = 0
    while time.monotonic() < end:
        seed = first + count
        for target in TARGETS:
            try:
                target(random.Random(seed))
            except Exception:
                print(f"{target.__name__} failed; again with: make fuzz ARGS='--seed {seed}'", file=sys.stderr)
                raise
        count += 1
    print(f"{count * len(TARGETS):,} cases, none failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
