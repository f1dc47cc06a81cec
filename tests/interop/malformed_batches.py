"""A corpus of malformed batches: each field of each format is invalid in turn, uncompressed and with each codec."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ottla.records import compression
from ottla.records.batch import HEADER_BYTES, LOG_OVERHEAD
from ottla.records.crc import crc32c
from ottla.records.varint import append_varlong

NOW = 0
"""Placeholder for the time of the test; `Case.data` fills it in."""
PRODUCER = 10_000_000_001
"""Placeholder for a producer id that the broker has allocated."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
V2_VERSION = 8
OLD_VERSION = 2
HOUR = 3_600_000

PLAIN, COMPACTED, APPEND_TIME, ZSTD_TOPIC = "plain", "compacted", "append-time", "zstd"
TOPICS: dict[str, dict[str, str]] = {
    PLAIN: {"message.timestamp.after.max.ms": "3600000"},  # the default since Apache Kafka 4
    COMPACTED: {"cleanup.policy": "compact"},
    APPEND_TIME: {"message.timestamp.type": "LogAppendTime"},
    ZSTD_TOPIC: {"compression.type": "zstd"},
}


def varint(value: int) -> bytes:
    out = bytearray()
    append_varlong(out, value)
    return bytes(out)


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    delta: int = 0,
    *,
    time_delta: int | bytes = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"value",
    attributes: int = 0,
    offset_delta: bytes | None = None,
    key_field: bytes | None = None,
    value_field: bytes | None = None,
    headers: bytes = b"\0",
    length: int | bytes | None = None,
    tail: bytes = b"",
) -> bytes:
    """Encode a record of format 2; each part can be replaced with other bytes."""
    body = bytes([attributes])
    body += varint(time_delta) if isinstance(time_delta, int) else time_delta
    body += varint(delta) if offset_delta is None else offset_delta
    body += sized(key) if key_field is None else key_field
    body += sized(value) if value_field is None else value_field
    body += headers + tail
    if isinstance(length, bytes):
        return length + body
    return varint(len(body) + (length or 0)) + body


def three() -> list[bytes]:
    return [record(i) for i in range(3)]


@dataclass(frozen=True)
class V2:
    """A batch of format 2 in which every field can be invalid; the CRC is correct unless `crc_xor` is set."""

    records: list[bytes] = field(default_factory=three)
    codec: str = "none"
    base_offset: int = 0
    length: int = 0
    """Added to the correct length."""
    magic: int = 2
    attributes: int = 0
    codec_id: int | None = None
    last_offset_delta: int | None = None
    base_timestamp: int = NOW
    max_timestamp: int = NOW
    producer: tuple[int, int, int] = (-1, -1, -1)
    count: int | None = None
    crc_xor: int = 0
    damage: Callable[[bytes], bytes] | None = None
    """Applied to the (compressed) records."""
    tail: bytes = b""
    """Bytes after the batch."""

    def encode(self, now: int, producer_id: int = -1) -> bytes:
        payload = bytes(compression.compress(compression.CODEC_IDS[self.codec], b"".join(self.records)))
        if self.damage is not None:
            payload = self.damage(payload)
        count = len(self.records) if self.count is None else self.count
        last = count - 1 if self.last_offset_delta is None else self.last_offset_delta
        codec = compression.CODEC_IDS[self.codec] if self.codec_id is None else self.codec_id
        producer = (producer_id if self.producer[0] == PRODUCER else self.producer[0], *self.producer[1:])
        covered = struct.pack(
            ">hiqqqhii", self.attributes | codec, last, now + self.base_timestamp if abs(self.base_timestamp) < 1 << 60
            else self.base_timestamp, now + self.max_timestamp if abs(self.max_timestamp) < 1 << 60
            else self.max_timestamp, *producer, count,
        ) + payload  # fmt: skip
        head = struct.pack(
            ">qiibI",
            self.base_offset,
            HEADER_BYTES - LOG_OVERHEAD + len(payload) + self.length,
            -1,
            self.magic,
            crc32c(covered, 0) ^ self.crc_xor,
        )
        return head + covered + self.tail


@dataclass(frozen=True)
class Old:
    """A message of format 0 or 1; with `inner`, its value is a compressed message set."""

    magic: int = 1
    key: bytes | None = b"k"
    value: bytes | None = b"value"
    offset: int = 0
    attributes: int = 0
    timestamp: int = NOW
    size: int = 0
    crc_xor: int = 0
    key_size: int | None = None
    value_size: int | None = None
    inner: tuple[Old, ...] | None = None
    codec: str = "none"
    damage: Callable[[bytes], bytes] | None = None
    tail: bytes = b""

    def encode(self, now: int, producer_id: int = -1) -> bytes:
        value = self.value
        if self.inner is not None:
            value = b"".join(m.encode(now) for m in self.inner)
        codec = compression.CODEC_IDS[self.codec]
        if codec and value is not None:
            value = bytes(compression.compress(codec, value))
            if self.codec == "lz4" and self.magic == 0:
                # Kafka's old clients computed the header checksum over the magic as well.
                from ottla.records.legacy_message_set import _with_lz4_checksum

                value = bytes(_with_lz4_checksum(value, over_magic=True))
        if self.damage is not None and value is not None:
            value = self.damage(value)
        covered = struct.pack(">bB", self.magic, self.attributes | codec)
        if self.magic != 0:
            covered += struct.pack(">q", now + self.timestamp)
        for data, size in ((self.key, self.key_size), (value, self.value_size)):
            covered += struct.pack(">i", size if size is not None else -1 if data is None else len(data))
            covered += data or b""
        crc = zlib.crc32(covered) ^ self.crc_xor
        return struct.pack(">qiI", self.offset, 4 + len(covered) + self.size, crc) + covered + self.tail


@dataclass(frozen=True)
class Case:
    """The data sent to one partition; `topic` is one of TOPICS."""

    name: str
    parts: tuple[V2 | Old | bytes, ...]
    topic: str = PLAIN
    version: int = V2_VERSION

    def data(self, now: int, producer_id: int) -> bytes:
        return b"".join(p if isinstance(p, bytes) else p.encode(now, producer_id) for p in self.parts)


def cut(nbytes: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:-nbytes]


def flip(at: int) -> Callable[[bytes], bytes]:
    def flipped(data: bytes) -> bytes:
        out = bytearray(data)
        out[at] ^= 0xFF
        return bytes(out)

    return flipped


def with_invalid(second: bytes) -> list[bytes]:
    """Return three records, of which the second is invalid."""
    return [record(0), second, record(2)]


RECORDS: dict[str, list[bytes]] = {
    "record length one too long": with_invalid(record(1, length=1)),
    "record length one too short": with_invalid(record(1, length=-1)),
    "record length beyond the batch": with_invalid(record(1, length=1_000_000)),
    "record length zero": with_invalid(b"\0"),
    "record length negative": with_invalid(record(1, length=varint(-1))),
    "record length of six bytes": with_invalid(record(1, length=b"\x96\x80\x80\x80\x80\x00")),
    "record length of five bytes": with_invalid(record(1, length=b"\x9a\x80\x80\x80\x00")),
    "record length over 32 bits": with_invalid(record(1, length=b"\x9a\x80\x80\x80\x10")),
    "record length never ends": with_invalid(b"\xff" * 12),
    "record length 2^31-1": with_invalid(record(1, length=varint((1 << 31) - 1))),
    "record attributes set": with_invalid(record(1, attributes=0xFF)),
    "bytes after the headers": with_invalid(record(1, tail=b"more")),
    "offset delta repeated": [record(0), record(0), record(0)],
    "offset delta with a gap": [record(0), record(1), record(5)],
    "offset deltas backwards": [record(2), record(1), record(0)],
    "offset delta negative": [record(-1), record(0), record(1)],
    "offset deltas from one": [record(1), record(2), record(3)],
    "offset delta 2^31-1": with_invalid(record((1 << 31) - 1)),
    "offset delta of six bytes": with_invalid(record(offset_delta=b"\x82\x80\x80\x80\x80\x00")),
    "key length beyond the record": with_invalid(record(1, key_field=varint(100) + b"k")),
    "key length -2": with_invalid(record(1, key_field=varint(-2))),
    "key length -2^31": with_invalid(record(1, key_field=varint(-(1 << 31)))),
    "key length 2^31-1": with_invalid(record(1, key_field=varint((1 << 31) - 1))),
    "key length takes the value": with_invalid(record(1, key_field=varint(7) + b"k")),
    "value length beyond the record": with_invalid(record(1, value_field=varint(100) + b"v")),
    "value length -2": with_invalid(record(1, value_field=varint(-2))),
    "value length takes the headers": with_invalid(record(1, value_field=varint(2) + b"v")),
    "header count negative": with_invalid(record(1, headers=varint(-1))),
    "header count without headers": with_invalid(record(1, headers=varint(3))),
    "header count 2^31-1": with_invalid(record(1, headers=varint((1 << 31) - 1))),
    "header with a null key": with_invalid(record(1, headers=varint(1) + varint(-1) + sized(b"v"))),
    "header key length -2": with_invalid(record(1, headers=varint(1) + varint(-2) + sized(b"v"))),
    "header key beyond the record": with_invalid(record(1, headers=varint(1) + varint(99) + b"k")),
    "header with an empty key": with_invalid(record(1, headers=varint(1) + sized(b"") + sized(b"v"))),
    "header key is not UTF-8": with_invalid(record(1, headers=varint(1) + sized(b"\xff\xfe") + sized(b"v"))),
    "header with a null value": with_invalid(record(1, headers=varint(1) + sized(b"h") + varint(-1))),
    "header value length -2": with_invalid(record(1, headers=varint(1) + sized(b"h") + varint(-2))),
    "header value beyond the record": with_invalid(record(1, headers=varint(1) + sized(b"h") + varint(99))),
    "null key and value": with_invalid(record(1, key=None, value=None)),
    "timestamp two hours ahead": with_invalid(record(1, time_delta=2 * HOUR)),
    "timestamp ten years ago": with_invalid(record(1, time_delta=-10 * 365 * 24 * HOUR)),
    "timestamp below zero": with_invalid(record(1, time_delta=-(1 << 50))),
    "timestamp delta of eleven bytes": with_invalid(record(1, time_delta=b"\x80" * 10 + b"\0")),
    "timestamp delta overflows": with_invalid(record(1, time_delta=(1 << 63) - 1)),
    "records are random bytes": [bytes((i * 7919 + 13) % 251 for i in range(300))],
    "records are zeros": [bytes(300)],
}
"""Invalid or unusual records, used with every codec."""

COUNTS = {
    "count one too high": {"count": 4},
    "count one too low": {"count": 2},
    "count one too high only": {"count": 4, "last_offset_delta": 2},
    "last offset delta too high": {"last_offset_delta": 3},
    "last offset delta too low": {"last_offset_delta": 1},
    "count zero": {"count": 0},
    "count zero, last offset delta zero": {"count": 0, "last_offset_delta": 0},
    "count negative": {"count": -1},
    "count 2^31-1": {"count": (1 << 31) - 1},
    "last offset delta -1": {"last_offset_delta": -1},
    "last offset delta 2^31-1": {"last_offset_delta": (1 << 31) - 1},
    "maximum timestamp too late": {"max_timestamp": HOUR // 2},
    "maximum timestamp years ahead": {"max_timestamp": 10 * 365 * 24 * HOUR},
    "maximum timestamp too early": {"max_timestamp": -HOUR},
    "maximum timestamp -1": {"max_timestamp": -1 - (1 << 61)},
    "no records": {"records": []},
    "no records, count three": {"records": [], "count": 3},
}
"""Headers that do not match their records, used with every codec."""

HEADERS: dict[str, V2] = {
    "magic 0": V2(magic=0),
    "magic 1": V2(magic=1),
    "magic 3": V2(magic=3),
    "magic 127": V2(magic=127),
    "magic -1": V2(magic=-1),
    "CRC wrong": V2(crc_xor=1),
    "base offset 5": V2(base_offset=5),
    "base offset -1": V2(base_offset=-1),
    "base offset 2^63-1": V2(base_offset=(1 << 63) - 1),
    "length one too long": V2(length=1),
    "length one too short": V2(length=-1),
    "length far beyond the data": V2(length=1_000_000),
    "length of the header only": V2(records=[], count=3),
    "length less than the header": V2(length=-60),
    "length 13": V2(records=[], length=13 - 49),
    "length zero": V2(records=[], length=-49),
    "length negative": V2(records=[], length=-100),
    "length 2^31-1": V2(records=[], length=(1 << 31) - 1 - 49),
    "codec 5": V2(codec_id=5),
    "codec 6": V2(codec_id=6),
    "codec 7": V2(codec_id=7),
    "high attribute bits": V2(attributes=0x7F00),
    "delete horizon": V2(attributes=0x40),
    "attribute bit 7": V2(attributes=0x80),
    "control batch": V2(attributes=0x20),
    "LogAppendTime from a client": V2(attributes=0x08),
    "LogAppendTime from a client, max timestamp far ahead": V2(attributes=0x08, max_timestamp=5 * HOUR),
    "producer without a sequence": V2(producer=(PRODUCER, 0, -1)),
    "producer with a negative sequence": V2(producer=(PRODUCER, 0, -7)),
    "producer without an epoch": V2(producer=(PRODUCER, -1, 0)),
    "producer id -2": V2(producer=(-2, 0, 0)),
    "epoch and sequence without a producer": V2(producer=(-1, 3, 4)),
    "base timestamp -1": V2(base_timestamp=-1 - (1 << 61)),
    "base timestamp 2^63-1": V2(base_timestamp=(1 << 63) - 1),
    "base timestamp -2^63": V2(base_timestamp=-(1 << 63)),
    "eight bytes behind the batch": V2(tail=b"trailing"),
    "zeros behind the batch": V2(tail=bytes(100)),
    "half a batch behind the batch": V2(tail=V2().encode(0)[:70]),
    "part of a header behind the batch": V2(tail=V2().encode(0)[:16]),
    "odd magic behind the batch": V2(tail=V2(magic=9).encode(0)[:60]),
}

DAMAGE: dict[str, dict[str, Callable[[bytes], bytes]]] = {
    codec: {
        "compressed data cut by one": cut(1),
        "compressed data cut by ten": cut(10),
        "compressed data empty": lambda _: b"",
        "compressed data of one byte": lambda data: data[:1],
        "compressed data not compressed": lambda _: b"".join(three()),
        "first compressed byte flipped": flip(0),
        "compressed byte in the middle flipped": lambda data: flip(len(data) // 2)(data),
        "last compressed byte flipped": flip(-1),
        "garbage behind compressed data": lambda data: data + b"garbage garbage garbage",
        "compressed data twice": lambda data: data + data,
    }
    for codec in CODECS[1:]
}


def _raw_snappy(records: bytes) -> bytes:
    import cramjam

    return bytes(cramjam.snappy.compress_raw(records))


CODEC_CASES: dict[str, V2] = {
    "gzip in two members": V2(
        codec_id=1, damage=lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])
    ),
    "gzip in a hundred members": V2(
        [record(i) for i in range(100)],
        codec_id=1,
        damage=lambda data: b"".join(gzip.compress(data[i : i + 15]) for i in range(0, len(data), 15)),
    ),
    "gzip member empty": V2(codec_id=1, damage=lambda data: gzip.compress(b"") + gzip.compress(data)),
    "zlib where gzip is named": V2(codec_id=1, damage=zlib.compress),
    "raw snappy": V2(codec_id=2, damage=_raw_snappy),
    "snappy promises 4 GiB": V2(codec_id=2, damage=lambda data: b"\xff\xff\xff\xff\x0f" + _raw_snappy(data)[1:]),
    "snappy block beyond the data": V2(codec="snappy", damage=lambda data: data[:16] + b"\0\0\xff\xff" + data[20:]),
    "snappy block of negative size": V2(codec="snappy", damage=lambda data: data[:16] + b"\xff" * 4 + data[20:]),
    "snappy of xerial version 9": V2(codec="snappy", damage=lambda data: data[:8] + b"\0\0\0\x09" * 2 + data[16:]),
    "lz4 block beyond the data": V2(codec="lz4", damage=lambda data: data[:7] + b"\xff\xff\0\0" + data[11:]),
    "lz4 with a wrong header checksum": V2(codec="lz4", damage=flip(6)),
    "lz4 frame without its end": V2(codec="lz4", damage=cut(4)),
    "zstd without its end": V2(codec="zstd", damage=cut(3)),
    "gzip named snappy": V2(codec="gzip", codec_id=2),
    "snappy named lz4": V2(codec="snappy", codec_id=3),
    "lz4 named zstd": V2(codec="lz4", codec_id=4),
    "zstd named gzip": V2(codec="zstd", codec_id=1),
    "zstd named none": V2(codec="zstd", codec_id=0),
}  # fmt: skip


def inner(magic: int, count: int = 3, **wrong: object) -> tuple[Old, ...]:
    """Return the messages of a compressed set; the fields in `wrong` are those of the second one."""
    return tuple(Old(magic, offset=i, **(wrong if i == 1 else {})) for i in range(count))  # type: ignore[arg-type]


def old_cases() -> Iterator[tuple[str, tuple[V2 | Old | bytes, ...]]]:
    for magic in (0, 1):
        plain = Old(magic)
        yield f"format {magic}: sound", (plain,)
        yield f"format {magic}: three sound", (plain, plain, plain)
        yield f"format {magic}: CRC wrong", (Old(magic, crc_xor=1),)
        yield f"format {magic}: second CRC wrong", (plain, Old(magic, crc_xor=1))
        yield f"format {magic}: size one too long", (Old(magic, size=1),)
        yield f"format {magic}: size one too short", (Old(magic, size=-1), plain)
        yield f"format {magic}: size 13", (Old(magic, size=13 - (4 + 16 + 8 * magic)), plain)
        yield f"format {magic}: size zero", (Old(magic, size=-(4 + 16 + 8 * magic)), plain)
        yield f"format {magic}: key beyond the message", (Old(magic, key_size=1000),)
        yield f"format {magic}: key size -2", (Old(magic, key=None, key_size=-2),)
        yield f"format {magic}: value beyond the message", (Old(magic, value_size=1000),)
        yield f"format {magic}: value size too small", (Old(magic, value_size=2),)
        yield f"format {magic}: partial second message", (plain, Old(magic).encode(0)[:20])
        yield f"format {magic}: partial message only", (Old(magic).encode(0)[:30],)
        yield f"format {magic}: garbage behind", (Old(magic, tail=b"trailing"),)
        yield f"format {magic}: null value", (Old(magic, value=None),)
        yield f"format {magic}: mixed with the other", (plain, Old(1 - magic))
        yield f"format {magic}: codec 5", (Old(magic, attributes=5),)
        yield f"format {magic}: codec named, not compressed", (Old(magic, attributes=1),)
        yield f"format {magic}: codec named, null value", (Old(magic, attributes=1, value=None),)
        yield f"format {magic}: zstd", (Old(magic, codec="zstd", inner=inner(magic), offset=2),)
        for codec in CODECS[1:4]:
            sound = Old(magic, codec=codec, inner=inner(magic), offset=2)
            yield f"format {magic}, {codec}: sound", (sound,)
            yield f"format {magic}, {codec}: two sets", (sound, sound)
            yield f"format {magic}, {codec}: plain message before", (plain, sound)
            yield (
                f"format {magic}, {codec}: outer CRC wrong",
                (Old(magic, codec=codec, inner=inner(magic), offset=2, crc_xor=1),),
            )
            yield (
                f"format {magic}, {codec}: inner CRC wrong",
                (Old(magic, codec=codec, inner=inner(magic, crc_xor=1), offset=2),),
            )
            yield (
                f"format {magic}, {codec}: inner of the other format",
                (Old(magic, codec=codec, inner=(Old(magic), Old(1 - magic, offset=1)), offset=1),),
            )
            yield (
                f"format {magic}, {codec}: all inner of the other format",
                (Old(magic, codec=codec, inner=inner(1 - magic), offset=2),),
            )
            yield (
                f"format {magic}, {codec}: inner compressed",
                (Old(magic, codec=codec, inner=(Old(magic, codec="gzip", inner=inner(magic)),), offset=0),),
            )
            yield f"format {magic}, {codec}: no inner", (Old(magic, codec=codec, inner=(), offset=0),)
            yield (
                f"format {magic}, {codec}: partial inner",
                (Old(magic, codec=codec, value=b"".join(m.encode(0) for m in inner(magic))[:-5], offset=2),),
            )
            yield (
                f"format {magic}, {codec}: inner size negative",
                (Old(magic, codec=codec, inner=inner(magic, size=-200), offset=2),),
            )
            yield (
                f"format {magic}, {codec}: inner key beyond it",
                (Old(magic, codec=codec, inner=inner(magic, key_size=1000), offset=2),),
            )
            yield (
                f"format {magic}, {codec}: data cut",
                (Old(magic, codec=codec, inner=inner(magic), offset=2, damage=cut(9)),),
            )
            yield (
                f"format {magic}, {codec}: wrapper offset zero",
                (Old(magic, codec=codec, inner=inner(magic), offset=0),),
            )
            yield (
                f"format {magic}, {codec}: wrapper offset too low",
                (Old(magic, codec=codec, inner=inner(magic), offset=1),),
            )
            yield (
                f"format {magic}, {codec}: inner offsets repeated",
                (Old(magic, codec=codec, inner=(Old(magic), Old(magic), Old(magic)), offset=0),),
            )
    yield "format 1: LogAppendTime from a client", (Old(1, attributes=8),)
    yield "format 1: two hours ahead", (Old(1, timestamp=2 * HOUR),)
    yield "format 2 in an old request", (V2(),)
    yield "format 2 twice in an old request", (V2(), V2())
    yield "format 2 after format 1", (Old(1), V2())
    yield "nothing", ()


def cases() -> list[Case]:
    """Return all cases for the current versions of Produce."""
    actual = [Case(f"header: {name}", (batch,)) for name, batch in HEADERS.items()]
    actual += [Case(f"codec: {name}", (batch,)) for name, batch in CODEC_CASES.items()]
    for codec in CODECS:
        actual.append(Case(f"{codec}: sound", (V2(codec=codec),)))
        actual += [Case(f"{codec}: {name}", (V2(records, codec),)) for name, records in RECORDS.items()]
        actual += [
            Case(f"{codec}: {name}", (V2(codec=codec, **wrong),))  # type: ignore[arg-type]
            for name, wrong in COUNTS.items()
        ]
        ahead = V2([record(0, time_delta=9 * HOUR)], codec)
        wrong_length = V2(with_invalid(record(1, length=1)), codec)
        without_key = V2([record(0), record(1, key=None), record(2)], codec)
        actual += [
            Case(f"{codec}: no key in a compacted topic", (without_key,), COMPACTED),
            Case(
                f"{codec}: no key and a wrong time in a compacted topic",
                (V2([record(0, key=None), record(1, time_delta=2 * HOUR)], codec),),
                COMPACTED,
            ),
            Case(f"{codec}: repeated offset deltas in a compacted topic", (V2([record(0)] * 3, codec),), COMPACTED),
            Case(f"{codec}: ahead in a LogAppendTime topic", (ahead,), APPEND_TIME),
            Case(f"{codec}: LogAppendTime in a LogAppendTime topic", (V2(codec=codec, attributes=8),), APPEND_TIME),
            Case(f"{codec}: record length wrong in a zstd topic", (wrong_length,), ZSTD_TOPIC),
            Case(f"{codec}: sound in a zstd topic", (V2(codec=codec),), ZSTD_TOPIC),
            Case(f"{codec}: repeated offset deltas in a zstd topic", (V2([record(0)] * 3, codec),), ZSTD_TOPIC),
        ]  # fmt: skip
    for codec, ways in DAMAGE.items():
        actual += [Case(f"{codec}: {name}", (V2(codec=codec, damage=damage),)) for name, damage in ways.items()]
    actual += [
        Case("two batches", (V2(), V2())),
        Case("no batch", ()),
        Case("five bytes", (b"12345",)),
        Case("eleven bytes", (b"12345678901",)),
        Case("sixteen bytes", (V2().encode(0)[:16],)),
        Case("random bytes", (bytes((i * 7919 + 13) % 251 for i in range(300)),)),
        Case("zeros", (bytes(300),)),
        Case("version 3: sound", (V2(),), version=3),
        Case("version 3: zstd", (V2(codec="zstd"),), version=3),
        Case("version 6: zstd with a wrong CRC", (V2(codec="zstd", crc_xor=1),), version=6),
        Case("version 3: codec 5", (V2(codec_id=5),), version=3),
        Case("version 7: message of format 1", (Old(1),), version=7),
        Case("version 7: message of format 0", (Old(0),), version=7),
        Case("version 7: compressed message of format 1", (Old(1, codec="gzip", inner=inner(1), offset=2),), version=7),
    ]
    return actual


def old_format_cases() -> list[Case]:
    """Return the cases of Produce version 2, which Apache Kafka 4 no longer serves."""
    return [Case(name, parts, version=OLD_VERSION) for name, parts in old_cases()]
