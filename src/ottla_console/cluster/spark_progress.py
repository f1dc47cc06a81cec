"""The progress of Spark queries and pipelines, from files that `ottla.spark.monitor` and `ottla pipeline run` write.

The files may come from any process and version, so every field is checked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.spark.monitoring.progress_file import MAX_FILES, PIPELINE, QUERIES, progress_files
from ottla_console.cluster.samples import Point
from ottla_console.web.texts import parsed_time

MAX_BYTES: Final = 8 * 1024 * 1024
"""The maximum size of a file. Larger files are reported as unreadable."""
SILENT_MS: Final = 30_000
"""The time in milliseconds without an update after which a process is considered dead. A live process writes at least
about every five seconds.
"""
KILLED: Final = "no report"


class BatchPoint(NamedTuple):
    """A micro-batch in the charts. `behind` is the number of offsets that have not been read."""

    time: float
    """Seconds since 1970."""
    rows_per_second: float
    behind: float
    milliseconds: float


class QueryRow(NamedTuple):
    """A streaming query."""

    file: str
    query_id: str
    name: str
    application: str
    host: str
    status: str
    error: str
    batches: int
    rows: int
    rows_per_second: float
    """The rate over all micro-batches, without the time between them."""
    behind: int | None
    """The number of offsets that have not been read; None if the sources do not report it."""
    state_rows: int | None
    updated_ms: int
    topics: Mapping[str, int]
    durations_ms: Mapping[str, int]
    recent: tuple[BatchPoint, ...]

    def points(self, value: str) -> list[Point]:
        """Return the points of a chart. `value` is the name of a field of BatchPoint."""
        return [Point(batch.time, getattr(batch, value)) for batch in self.recent]


class FlowRow(NamedTuple):
    """The last state of a flow of a pipeline."""

    name: str
    state: str
    at_ms: int
    reason: str


class PipelineRow(NamedTuple):
    """A run of a pipeline."""

    file: str
    name: str
    host: str
    state: str
    message: str
    started_ms: int
    updated_ms: int
    flows: tuple[FlowRow, ...]

    @property
    def done(self) -> int:
        """The number of flows that are complete."""
        return sum(flow.state == "COMPLETED" for flow in self.flows)


class SparkProgress(NamedTuple):
    """Queries and pipelines, those with the newest updates first, and the names of files that could not be read."""

    queries: tuple[QueryRow, ...]
    pipelines: tuple[PipelineRow, ...]
    unreadable: tuple[str, ...]


def read_progress(directories: Iterable[Path], now_ms: int) -> SparkProgress:
    """Return the progress in the newest files of each directory. Blocks, so call it in a thread."""
    queries: list[QueryRow] = []
    pipelines: list[PipelineRow] = []
    unreadable: list[str] = []
    for directory in directories:
        for path in progress_files(directory)[:MAX_FILES]:
            try:
                document = _document(path)
                if document["kind"] == QUERIES:
                    queries += (_query(path.name, document, query, now_ms) for query in document["queries"])
                elif document["kind"] == PIPELINE:
                    pipelines.append(_pipeline(path.name, document, now_ms))
            except FileNotFoundError:
                continue  # deleted in the meantime
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
                unreadable.append(path.name)
    queries.sort(key=lambda row: -row.updated_ms)
    pipelines.sort(key=lambda row: -row.updated_ms)
    return SparkProgress(tuple(queries), tuple(pipelines), tuple(unreadable))


def _document(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"{path} is too large")
    document = json.loads(data)
    if not isinstance(document, dict):
        raise TypeError(f"{path} is not a JSON object")
    return document


def _query(file: str, document: Mapping[str, Any], query: Mapping[str, Any], now_ms: int) -> QueryRow:
    behind = {str(topic): int(count) for topic, count in query["offsetsBehindLatest"].items()}
    error = str(query["exception"] or "")
    return QueryRow(
        file,
        str(query["id"]),
        str(query["name"]),
        str(document["name"]),
        str(document["host"]),
        _status(str(query["status"]), "running", document, now_ms),
        error.strip(),
        int(query["batches"]),
        int(query["numInputRows"]),
        _number(query["processedRowsPerSecond"]),
        sum(behind.values()) if behind else None,
        int(query["state"]["rows"]) if query["state"] else None,
        int(document["updatedMs"]),
        behind,
        {str(phase): int(ms) for phase, ms in query["durationMs"].items()},
        tuple(_batch(batch) for batch in query["recent"]),
    )


def _batch(batch: Mapping[str, Any]) -> BatchPoint:
    return BatchPoint(
        parsed_time(str(batch["at"])) / 1000,
        _number(batch["rows_per_second"]),
        _number(batch["allBehind"]),
        _number(batch["milliseconds"]),
    )


def _pipeline(file: str, document: Mapping[str, Any], now_ms: int) -> PipelineRow:
    return PipelineRow(
        file,
        str(document["name"]),
        str(document["host"]),
        _status(str(document["state"]), "RUNNING", document, now_ms),
        str(document["message"]),
        int(document["startedMs"]),
        int(document["updatedMs"]),
        tuple(FlowRow(str(f["name"]), str(f["state"]), int(f["atMs"]), str(f["reason"])) for f in document["flows"]),
    )


def _status(status: str, running: str, document: Mapping[str, Any], now_ms: int) -> str:
    """Return the status in lower case. If it is `running`, return `ended` for a closed file, and `no report` for a file
    that is not written any more.
    """
    if status != running:
        return status.lower()
    if document["isClosed"]:
        return "ended"
    return KILLED if now_ms - int(document["updatedMs"]) > SILENT_MS else "running"


def _number(value: Any) -> float:
    number = float(value)
    return number if math.isfinite(number) else 0.0
