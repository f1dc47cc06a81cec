"""Damage messages and batches for a while: decoders may refuse them, and may do nothing else.

make fuzz ARGS="--seconds 60 --seed 7"
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from ottla.errors import CorruptMessageError, KafkaError, MalformedMessageError, UnsupportedCompressionTypeError
from ottla.protocol.apis import APIS
from ottla.protocol.header import decode_request_header
from ottla.protocol.message import decode, encode
from ottla.records import compression
from ottla.records.batch import records, split
from ottla.records.builder import BatchBuilder

Target = Callable[[random.Random], None]


def damaged(data: bytes, r: random.Random) -> bytes:
    """The bytes with a few of them changed, cut or doubled."""
    out = bytearray(data)
    for _ in range(r.randint(1, 4)):
        if not out:
            break
        at = r.randrange(len(out))
        how = r.randrange(4)
        if how == 0:
            out[at] ^= 1 << r.randrange(8)
        elif how == 1:
            del out[at:]
        elif how == 2:
            out[at:at] = out[: r.randrange(64)]
        else:
            out[at : at + 4] = r.choice(
                [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\x0f"]
            )
    return bytes(out)


def messages(r: random.Random) -> None:
    """A message of any API and version."""
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
    """A request's header."""
    try:
        decode_request_header(r.randbytes(r.randint(0, 40)))
    except MalformedMessageError:
        pass


def batches(r: random.Random) -> None:
    """A record batch in any codec, its checksum left unchecked so that the damage gets through."""
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


TARGETS: tuple[Target, ...] = (messages, headers, batches)


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
