"""Model tests of offset and time index: lookups match a linear scan, in memory, from the file, and after truncation."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.effort import repeats

import ottla.storage.index
from ottla.storage.index import OFFSET, POSITION, CorruptIndexError, OffsetIndex, TimeIndex

BASE = 1000
steps = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=40)
times = st.lists(st.tuples(st.sampled_from(range(-1, 300)), st.integers(0, 20)), max_size=40)

AnyIndex = TypeVar("AnyIndex", OffsetIndex, TimeIndex)


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Let a search in a file end in a block of a few entries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ottla.storage.index, "BLOCK_ENTRIES", 3)
        yield


def states(index: AnyIndex) -> Iterator[AnyIndex]:
    """Yield the index as it is written, after it is read from its file, and after it is opened for writing again."""
    yield index
    index.finish()
    index.open(writable=False)
    yield index
    index.close()
    index.open(writable=True)
    yield index


def scan(entries: list[tuple[int, int]], target: int, field: int) -> int:
    """Return the number of the last entry that is not above the target, or -1."""
    return max((i for i, entry in enumerate(entries) if entry[field] <= target), default=-1)


@settings(max_examples=repeats(30, 300))
@given(steps=steps, targets=st.lists(st.integers(-5, 2500), max_size=8), cut=st.integers(0, 2500))
def test_offset_index_lookup_matches_a_linear_scan(steps: list[tuple[int, int]], targets: list[int], cut: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        index = OffsetIndex(Path(directory) / "x.index", BASE, 4096)
        index.create()
        entries, offset, position = [], 0, 0
        for more_offset, more_position in steps:
            offset, position = offset + more_offset, position + more_position
            index.append(BASE + offset, position)
            entries.append((offset, position))
        for state in states(index):
            assert [state.entry(i) for i in range(state.entries)] == entries
            for target in targets:
                assert state.find(target, OFFSET) == scan(entries, target, OFFSET)
                assert state.find(target * 30, POSITION) == scan(entries, target * 30, POSITION)
            assert state.last_offset == BASE + (entries[-1][0] if entries else 0)
        index.truncate_to(BASE + cut)
        assert [index.entry(i) for i in range(index.entries)] == [e for e in entries if e[0] < cut]


@settings(max_examples=repeats(30, 300))
@example(times=[(0, 0)], targets=[0], cut=1)
@given(times=times, targets=st.lists(st.integers(-2, 320), max_size=8), cut=st.integers(0, 500))
def test_time_index_lookup_matches_a_linear_scan(times: list[tuple[int, int]], targets: list[int], cut: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        index = TimeIndex(Path(directory) / "x.timeindex", BASE, 4096)
        index.create()
        entries: list[tuple[int, int]] = []
        offset = 0
        for time, more in times:
            offset += more
            index.maybe_append(time, BASE + offset)
            if time > (entries[-1][0] if entries else -1):
                entries.append((time, offset))
        for state in states(index):
            assert [state.entry(i) for i in range(state.entries)] == entries
            for target in targets:
                actual = scan(entries, target, 0)
                assert state.lookup(target) == BASE + (entries[actual][1] if actual >= 0 else 0)
        index.truncate_to(BASE + cut)
        assert [index.entry(i) for i in range(index.entries)] == [e for e in entries if e[1] < cut]


@settings(max_examples=repeats(30, 300))
@given(steps=steps, tail=st.integers(0, 40))
def test_preallocated_zeros_after_the_index_entries_are_ignored(steps: list[tuple[int, int]], tail: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "x.index"
        index = OffsetIndex(path, BASE, 4096)
        index.create()
        offset = 0
        for more, _ in steps:
            offset += more
            index.append(BASE + offset, offset * 10)
        index.finish()
        path.write_bytes(path.read_bytes() + bytes(8 * tail))
        index.open(writable=True)
        assert index.entries == len(steps)
        index.append(BASE + offset + 1, offset * 10 + 7)
        index.finish()
        assert path.stat().st_size == 8 * (len(steps) + 1)


def test_index_of_an_invalid_size_or_order_is_corrupt(tmp_path: Path) -> None:
    index = OffsetIndex(tmp_path / "x.index", BASE, 4096)
    index.create()
    for i in range(1, 4):
        index.append(BASE + i, i * 100)
    index.finish()
    good = index.path.read_bytes()
    for bad in (good[:-3], good[16:] + good[:16], good + b"\0"):
        index.path.write_bytes(bad)
        index.open(writable=False)
        with pytest.raises(CorruptIndexError):
            index.sanity_check()
        index.close()
