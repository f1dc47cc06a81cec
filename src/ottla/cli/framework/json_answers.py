"""JSON that several tools print alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ottla.errors import KafkaError


def in_one_line(fields: Mapping[str, Any]) -> str:
    """JSON as Kafka's own tools print it: without blanks, and with letters of other alphabets as they are."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def partition_errors(errors: Mapping[Any, KafkaError]) -> list[dict[str, Any]]:
    """With `--json`: failures by TopicPartition, in the order of these."""
    return [
        {**tp._asdict(), "error": error.__class__.__name__, "message": str(error)}
        for tp, error in sorted(errors.items())
    ]
