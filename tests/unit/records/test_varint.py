"""Varints, and how the hot-path modules are loaded."""

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
def test_varlong_round_trip(
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
def test_varlong_encoding_of_small_numbers(hot: SimpleNamespace, value: int, encoded: str) -> None:
    out = bytearray()
    hot.varint.append_varlong(out, value)
    assert out.hex() == encoded


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 10, b"\xff" * 9 + b"\x02"])
def test_truncated_or_too_long_varlong_is_corrupt(hot: SimpleNamespace, data: bytes) -> None:
    with pytest.raises(CorruptMessageError):
        hot.varint.read_varlong(data)


def test_varlong_with_more_than_64_bits_raises_overflow_error(hot: SimpleNamespace) -> None:
    with pytest.raises(OverflowError):
        hot.varint.append_varlong(bytearray(), 1 << 63)


def _run(code: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip() + done.stderr.strip()


def test_ottla_pure_loads_the_python_source_without_a_warning() -> None:
    code = "import ottla.records as r, ottla.records.builder as b; print(r.COMPILED, b.__file__.endswith('.py'))"
    assert _run(code, OTTLA_PURE="1") == "False True"


def test_import_of_batch_loads_no_hot_path_module() -> None:
    code = "import sys, ottla.records.batch; print('ottla.records.builder' in sys.modules, 'crc32c' in sys.modules)"
    assert _run(code) == "False False", "the start of a broker loads neither the builder nor crc32c"
