"""The progress of one micro-batch, parsed from the JSON of Spark's StreamingQueryProgress.

The query may read from any sources, and may run with or without Spark Connect.

The lag of a query is known for sources that report both `endOffset` and `latestOffset` in the form of Spark's Kafka
connector, `{"topic": {"0": 12}}`, such as format("ottla") and format("kafka").
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Behind = Mapping[str, Mapping[str, int]]
"""The number of unread offsets by topic and partition."""


class State(NamedTuple):
    """The size of the state of a query's stateful operators."""

    rows: int
    memory_bytes: int
    disk_bytes: int
    """The size of the SST files of the RocksDB state store; 0 if Spark does not report it."""


class MicroBatch(NamedTuple):
    """The progress of one micro-batch."""

    query_id: str
    name: str
    """The name of the query or, without one, the beginning of its id."""
    batch_id: int
    at: str
    """The start time of the micro-batch in ISO 8601."""
    rows: int
    rows_per_second: float
    """The number of rows processed per second; 0 if Spark reports no finite number."""
    input_rows_per_second: float
    """The number of rows per second that have arrived since the previous micro-batch; 0 if Spark reports no finite
    number.
    """
    milliseconds: int
    durations_ms: Mapping[str, int]
    """The duration of each phase in milliseconds by Spark's name, such as latestOffset, queryPlanning, walCommit or
    addBatch.
    """
    behind: Behind
    """The number of unread offsets; empty if no source reports it."""
    state: State | None
    watermark: str | None


def micro_batch(progress: Mapping[str, Any]) -> MicroBatch:
    """Return the micro-batch of a StreamingQueryProgress, given as parsed JSON."""
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
    """Return the name under which a query is shown: its name or, without one, the beginning of its id."""
    return name or query_id[:8]


def total(behind: Behind) -> int:
    """Return the total number of unread offsets."""
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
    """Parse offsets in the form of Spark's Kafka connector. Parts that have another form are left out."""
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
