"""What several tools say alike with `--json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.errors import KafkaError


def partition_errors(errors: Mapping[Any, KafkaError]) -> list[dict[str, Any]]:
    """Failures by TopicPartition, in the order of these."""
    return [
        {**tp._asdict(), "error": error.__class__.__name__, "message": str(error)}
        for tp, error in sorted(errors.items())
    ]
