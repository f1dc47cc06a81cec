"""One micro-batch, parsed from the JSON of Spark's StreamingQueryProgress: of any source, classic or through Connect.

The lag of a query is known for sources that report both `endOffset` and `latestOffset` in the form of Spark's
Kafka connector, `{"topic": {"0": 12}}`: format("ottla") and format("kafka").
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Behind = Mapping[str, Mapping[str, int]]
"""Offsets that are not read yet, by topic and partition."""


class State(NamedTuple):
    """The state of a query's stateful operators."""

    rows: int
    memory_bytes: int
    disk_bytes: int
    """The disk space of the RocksDB state store; 0 for the one in memory."""


class MicroBatch(NamedTuple):
    """The progress of one micro-batch."""

    query_id: str
    name: str
    """The query's name, else the beginning of its id."""
    batch_id: int
    at: str
    """The time when the micro-batch began, in ISO 8601."""
    rows: int
    rows_per_second: float
    """The rate at which rows were processed."""
    input_rows_per_second: float
    """The rate at which rows have arrived since the previous micro-batch."""
    milliseconds: int
    durations_ms: Mapping[str, int]
    """The durations by Spark's names of the phases: latestOffset, queryPlanning, walCommit, addBatch, commitOffsets
    …
    """
    behind: Behind
    """The offsets that are not read yet; empty if no source reports them."""
    state: State | None
    watermark: str | None


def micro_batch(progress: Mapping[str, Any]) -> MicroBatch:
    """Parse a progress, as JSON, into its micro-batch."""
    durations = {str(k): int(v) for k, v in (progress.get("durationMs") or {}).items()}
    return MicroBatch(
        query_id=str(progress["id"]),
        name=label(progress.get("name"), str(progress["id"])),
        batch_id=int(progress["batchId"]),
        at=str(progress["timestamp"]),
        rows=int(progress.get("numInputRows") or 0),
        rows_per_second=_rate(progress.get("processedRowsPerSecond")),
        input_rows_per_second=_rate(progress.get("inputRowsPerSecond")),
        milliseconds=durations.pop("triggerExecution", int(progress.get("batchDuration") or 0)),
        durations_ms=durations,
        behind=_behind(progress.get("sources") or ()),
        state=_state(progress.get("stateOperators") or ()),
        watermark=(progress.get("eventTime") or {}).get("watermark"),
    )


def label(name: str | None, query_id: str) -> str:
    """Return the name under which a query is shown."""
    return name or query_id[:8]


def total(behind: Behind) -> int:
    """Return the number of offsets that have not been read yet."""
    return sum(sum(partitions.values()) for partitions in behind.values())


def _rate(value: Any) -> float:
    # Spark writes NaN and infinity, for the first micro-batch, as text or not at all.
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    return number if number - number == 0 else 0.0


def _behind(sources: Iterable[Mapping[str, Any]]) -> Behind:
    lags: dict[str, dict[str, int]] = {}
    for source in sources:
        end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        for topic, partitions in latest.items() if end else ():
            # A partition that is not in `end` is new, and will be read from its beginning.
            read = end.get(topic, {})
            places = lags.setdefault(topic, {})
            for partition, at in partitions.items():
                # A query that reads a topic twice is as far behind as the slower side.
                places[partition] = max(places.get(partition, 0), at - read.get(partition, 0))
    return lags


def _offsets(value: Any) -> dict[str, dict[str, int]]:
    """Parse offsets in the form of Spark's Kafka connector; empty for sources with another form."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    if not isinstance(value, dict):
        return {}
    topics = {k: v for k, v in value.items() if isinstance(v, dict)}
    return {t: {p: o for p, o in v.items() if isinstance(o, int)} for t, v in topics.items()}


def _state(operators: Iterable[Mapping[str, Any]]) -> State | None:
    states = [
        State(
            int(operator.get("numRowsTotal") or 0),
            int(operator.get("memoryUsedBytes") or 0),
            int((operator.get("customMetrics") or {}).get("rocksdbSstFileSize") or 0),
        )
        for operator in operators
    ]
    return State(*(sum(column) for column in zip(*states, strict=True))) if states else None
