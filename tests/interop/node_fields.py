"""Comparison of the znodes of two runs."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

OURS_ONLY = {"log_dirs", "cordoned_log_dirs"}
"""Fields of a broker's registration that Kafka has in its metadata log only (KIP-1066); its brokers ignore them."""


def comparable(value: bytes | None, of_one_run: Collection[str]) -> Any:
    """Return the content of a znode, without the values of the fields that differ from run to run."""
    if not value:
        return None
    try:
        document = json.loads(value)
    except ValueError:
        return value
    if not isinstance(document, Mapping):
        return document
    fields = {name: part for name, part in document.items() if name not in OURS_ONLY}
    return {name: "…" if name in of_one_run else part for name, part in fields.items()}
