import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptMessageError

longs = st.integers(-(1 << 63), (1 << 63) - 1)


@given(value=longs, before=st.binary(max_size=3), after=st.binary(max_size=3))
def test_varint_is_read_back_in_both_forms(
    both: tuple[SimpleNamespace, SimpleNamespace], value: int, before: bytes, after: bytes
) -> None:
    for hot in both:
        out = bytearray(before)
        hot.varint.append_varlong(out, value)
        assert len(out) == len(before) + hot.varint.size_of_varlong(value)
        assert hot.varint.read_varlong(out + after, len(before)) == (value, len(out))


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001")]
)
def test_small_numbers_are_short(hot: SimpleNamespace, value: int, encoded: str) -> None:
    out = bytearray()
    hot.varint.append_varlong(out, value)
    assert out.hex() == encoded


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 10, b"\xff" * 9 + b"\x02"])
def test_cut_or_endless_varint_is_corrupt(hot: SimpleNamespace, data: bytes) -> None:
    with pytest.raises(CorruptMessageError):
        hot.varint.read_varlong(data)


def test_more_than_64_bits_overflow(hot: SimpleNamespace) -> None:
    with pytest.raises(OverflowError):
        hot.varint.append_varlong(bytearray(), 1 << 63)


def _run(code: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip() + done.stderr.strip()


def test_ottla_pure_runs_the_source_without_a_warning() -> None:
    code = "import ottla.records as r, ottla.records.builder as b; print(r.COMPILED, b.__file__.endswith('.py'))"
    assert _run(code, OTTLA_PURE="1") == "False True"


def test_opening_a_batch_header_loads_no_hot_module() -> None:
    code = "import sys, ottla.records.batch; print('ottla.records.builder' in sys.modules, 'crc32c' in sys.modules)"
    assert _run(code) == "False False", "a broker's start pays neither for the builder nor for crc32c's package"
