"""Up-conversion of message sets of magic 0 and 1."""

from __future__ import annotations

import pytest

from ottla.errors import CorruptMessageError
from ottla.records import legacy_message_set
from ottla.records.builder import BatchBuilder
from ottla.records.conversion import down_converted, up_converted
from ottla.records.decoder import records


def test_up_conversion_preserves_log_append_time() -> None:
    def stamped(offset: int, time_ms: int, *values: bytes) -> bytes:
        builder = BatchBuilder(bytearray(1000), base_offset=offset)
        for value in values:
            assert builder.append(5, None, value)
        return bytes(down_converted(bytes(builder.close(append_time_ms=time_ms)), 1))

    options = legacy_message_set.encode(0, 77, None, b"a", 1)
    old = options + stamped(1, 100, b"b", b"c") + stamped(3, 200, b"d")
    actual = records(up_converted(memoryview(old)))
    assert [(r.offset, r.timestamp, r.timestamp_type) for r in actual] == [
        (0, 77, 0),
        (1, 100, 1),
        (2, 100, 1),
        (3, 200, 1),
    ]


@pytest.mark.parametrize("offset", [3, 4])
def test_up_conversion_ends_before_a_message_whose_offset_does_not_increase(offset: int) -> None:
    old = b"".join(legacy_message_set.encode(o, 77, None, b"v", 1) for o in (3, 4, offset, 6))
    assert [r.offset for r in records(up_converted(memoryview(old)))] == [3, 4]


@pytest.mark.parametrize("before", [0, 2])
def test_up_conversion_ends_before_a_message_with_a_negative_size(before: int) -> None:
    old = b"".join(legacy_message_set.encode(o, 77, None, b"v", 1) for o in range(before + 1))
    damaged = bytearray(old)
    size = before * len(old) // (before + 1) + 8
    damaged[size : size + 4] = b"\xff\xff\xff\xfe"
    if before:
        assert [r.offset for r in records(up_converted(memoryview(damaged)))] == list(range(before))
        return
    with pytest.raises(CorruptMessageError, match="the size of a message is -2"):
        up_converted(memoryview(damaged))


def test_compressed_message_whose_offsets_do_not_increase_is_corrupt() -> None:
    builder = BatchBuilder(bytearray(1000))
    for _ in range(3):
        assert builder.append(5, None, b"v")
    packed = records(builder.close())
    outer = legacy_message_set.encode_set([r._replace(offset=o) for r, o in zip(packed, (0, 2, 2), strict=True)], 1, 1)
    with pytest.raises(CorruptMessageError, match="the message at offset 2 follows the one at offset 2"):
        legacy_message_set.in_place(outer)
