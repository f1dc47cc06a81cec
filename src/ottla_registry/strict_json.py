"""Strict JSON, without NaN, infinity and floats that are too large: Python's parser accepts them, others may not."""

from __future__ import annotations

import json
import math
from typing import Any


def loads(text: str | bytes | bytearray) -> Any:
    """Parse JSON. Raises ValueError for invalid JSON, and RecursionError if it is nested too deeply."""
    return json.loads(text, parse_constant=_reject, parse_float=_number)


def _reject(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text:.100} is too large")
    return number
