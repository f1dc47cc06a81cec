"""Index lookups and skipping of batches in the scanner."""

from bisect import bisect_right
from random import Random
from struct import Struct
from types import SimpleNamespace

import pytest

from ottla.errors import CorruptMessageError
from ottla.records import any_magic
from ottla.records.builder import BatchBuilder
from ottla.records.conversion import down_converted

NOW = 1_700_000_000_000
NONE_AFTER = (1 << 63) - 1


def log_of(rng: Random, batches: int) -> bytes:
    """Return batches of all magics and many sizes, with gaps between their offsets."""
    out = bytearray()
    offset = 0
    for _ in range(batches):
        magic = rng.choice([0, 1, 2, 2])
        values = [rng.randbytes(rng.choice([0, 5, 300])) for _ in range(rng.randint(1, 4))]
        builder = BatchBuilder(bytearray(4000), base_offset=offset)
        for value in values:
            builder.append(NOW, None, value)
        batch = builder.close()
        out += batch if magic == 2 else down_converted(bytes(batch), magic)
        offset = list(any_magic.split(out))[-1][0].next_offset + rng.choice([0, 0, 3])
    return bytes(out)


@pytest.mark.parametrize("fields", [Struct(">ii"), Struct(">qi")])
def test_last_at_most_matches_bisect(hot: SimpleNamespace, fields: Struct) -> None:
    rng = Random(1)
    sizes = [Struct(">" + letter).size for letter in fields.format[1:]]
    for count in (0, 1, 2, 3, 50):
        low = -(2 ** (8 * sizes[0] - 2))
        firsts = sorted(rng.randrange(low, -low) for _ in range(count))
        seconds = sorted(rng.choices(range(40), k=count))
        packed = b"".join(map(fields.pack, firsts, seconds))
        for entries in (packed, bytearray(packed)):
            for field, values in enumerate((firsts, seconds)):
                at = sum(sizes[:field])
                for target in {value + d for value in values for d in (-1, 0, 1)} | {low - 1, -low + 1, 0}:
                    actual = hot.scanner.last_at_most(entries, fields.size, at, sizes[field], target)
                    assert actual == bisect_right(values, target) - 1


@pytest.mark.parametrize("seed", range(4))
def test_skip_batches_stops_at_an_offset_or_a_size(hot: SimpleNamespace, seed: int) -> None:
    rng = Random(seed)
    data = log_of(rng, 30)
    batches = list(any_magic.split(data))
    for _ in range(400):
        chunk = data[: rng.choice([len(data), rng.randrange(len(data) + 1)])]
        room = rng.randrange(len(data) + 50)
        offset = rng.choice([NONE_AFTER, rng.randrange(batches[-1][0].next_offset)])
        skipped, next_offset, nbytes = hot.scanner.skip_batches(chunk, room, offset)
        inside = [(h, start, end) for h, start, end in batches if end <= skipped]
        assert skipped == (inside[-1][2] if inside else 0)  # whole batches, also if the chunk ends within the last one
        assert all(h.last_offset < offset and end <= room for h, _, end in inside)
        if inside:
            assert next_offset == inside[-1][0].next_offset
        if nbytes:
            after, start, end = batches[len(inside)]
            assert (start, end - start) == (skipped, nbytes)
            assert after.last_offset >= offset or end > room
            assert inside or next_offset == after.base_offset
        else:
            assert len(chunk) - skipped < 27  # there is no header after them


def test_skip_batches_of_garbage_raises_corrupt_message_error(hot: SimpleNamespace) -> None:
    whole = log_of(Random(9), 1)
    for damage in (b"\x07", b"\xff"):
        with pytest.raises(CorruptMessageError):
            hot.scanner.skip_batches(whole[:16] + damage + whole[17:], 1000, NONE_AFTER)
    with pytest.raises(CorruptMessageError):
        hot.scanner.skip_batches(whole[:8] + b"\x80\0\0\0" + whole[12:], 1000, NONE_AFTER)
    assert hot.scanner.skip_batches(b"", 1000, NONE_AFTER) == (0, -1, 0)
    with pytest.raises(TypeError):
        hot.scanner.skip_batches(None, 1000, NONE_AFTER)
