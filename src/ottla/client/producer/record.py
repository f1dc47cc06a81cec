"""The record that a producer sends. Kafka's `ProducerRecord`."""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.client.producer.batch import Headers


class ProducerRecord(NamedTuple):
    """A record to send. `timestamp_ms` is in milliseconds since 1970 (None: now). If `partition` is None, the
    partitioner chooses it.
    """

    topic: str
    value: Any = None
    key: Any = None
    headers: Headers | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
