"""The history of a session's streaming queries, from the time when the monitor first received an event of each.

The threads that deliver Spark's events write it; other threads read it, such as that of the terminal. `Histories` has
the lock. If a query is restarted from its checkpoint, its history continues, because its id stays the same.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from ottla.spark.monitoring.progress import MicroBatch, State, total

MOST_QUERIES: Final = 100
MOST_BATCHES: Final = 1000
"""Maximum number of micro-batches that are stored per query. Totals also include earlier ones."""

RUNNING, ENDED, FAILED = "running", "ended", "failed"


@dataclass
class QueryHistory:
    """The history of one query: totals, and the last micro-batches. `milliseconds` is the total duration of all
    micro-batches.
    """

    query_id: str
    name: str
    status: str = RUNNING
    error: str | None = None
    batches: int = 0
    rows: int = 0
    milliseconds: int = 0
    durations_ms: dict[str, int] = field(default_factory=dict)
    most_behind: dict[str, int] = field(default_factory=dict)
    """The largest number of unread offsets at the end of a micro-batch so far, by topic."""
    recent: deque[MicroBatch] = field(default_factory=lambda: deque(maxlen=MOST_BATCHES))

    @property
    def last(self) -> MicroBatch | None:
        """The last micro-batch; None before the first."""
        return self.recent[-1] if self.recent else None

    @property
    def rows_per_second(self) -> float:
        """The number of rows divided by the total duration of micro-batches in seconds; 0 if that is 0."""
        return 1000 * self.rows / self.milliseconds if self.milliseconds else 0.0

    @property
    def behind(self) -> Mapping[str, int]:
        """The number of unread offsets after the last micro-batch, by topic; empty before the first, or if no source
        reports it.
        """
        return {t: sum(p.values()) for t, p in self.last.behind.items()} if self.last else {}

    @property
    def state(self) -> State | None:
        """The state of the query's stateful operators after the last micro-batch; None before the first, or if the
        query has none.
        """
        return self.last.state if self.last else None

    def add(self, batch: MicroBatch) -> None:
        """Add a micro-batch. It replaces the last one if that has the same id, so that a micro-batch which Spark
        reports repeatedly counts once.
        """
        if self.last is not None and self.last.batch_id == batch.batch_id:
            self._count(self.recent.pop(), -1)
        self._count(batch, 1)
        self.recent.append(batch)
        for topic, behind in self.behind.items():
            self.most_behind[topic] = max(behind, self.most_behind.get(topic, 0))

    def _count(self, batch: MicroBatch, sign: int) -> None:
        self.batches += sign
        self.rows += sign * batch.rows
        self.milliseconds += sign * batch.milliseconds
        for phase, duration in batch.durations_ms.items():
            self.durations_ms[phase] = self.durations_ms.get(phase, 0) + sign * duration

    def to_json(self, max_recent: int = MOST_BATCHES) -> dict[str, Any]:
        """Return the history as JSON values: totals, lag and state, and the last `max_recent` micro-batches in
        `recent`. Outside `recent`, most values that Spark reports have Spark's names.
        """
        return {
            "id": self.query_id,
            "name": self.name,
            "status": self.status,
            "exception": self.error,
            "batches": self.batches,
            "numInputRows": self.rows,
            "milliseconds": self.milliseconds,
            "processedRowsPerSecond": self.rows_per_second,
            "durationMs": self.durations_ms,
            "offsetsBehindLatest": dict(self.behind),
            "maxOffsetsBehindLatest": self.most_behind,
            "state": None if self.state is None else self.state._asdict(),
            "recent": [
                {**batch._asdict(), "state": batch.state and batch.state._asdict(), "allBehind": total(batch.behind)}
                for batch in islice(self.recent, max(0, len(self.recent) - max_recent), None)
            ],
        }


class Histories:
    """The histories of a session's queries, the oldest first. Thread-safe.

    Beyond MOST_QUERIES, a new query replaces the oldest one that no longer runs or, if all run, the oldest one.
    """

    def __init__(self) -> None:
        self._queries: dict[str, QueryHistory] = {}
        self._changed = threading.Condition()

    def started(self, query_id: str, name: str) -> None:
        """Record that a query has started, for the first time or again."""
        with self._changed:
            query = self._query(query_id, name)
            query.status, query.error = RUNNING, None

    def progressed(self, batch: MicroBatch) -> None:
        """Record the progress of a micro-batch."""
        with self._changed:
            self._query(batch.query_id, batch.name).add(batch)

    def ended(self, query_id: str, error: str | None) -> None:
        """Record that a query has failed with `error`, or ended without one if that is None. Unknown queries are
        ignored.
        """
        with self._changed:
            if query_id in self._queries:
                query = self._queries[query_id]
                query.status, query.error = (FAILED if error else ENDED), error
            self._changed.notify_all()

    def wait_for_ends(self, still_active: frozenset[str], seconds: float) -> None:
        """Wait up to `seconds` for the termination events of all queries that are no longer active. Spark sends them
        with a delay.
        """

        def all_ended() -> bool:
            return all(q.status != RUNNING or q.query_id in still_active for q in self._queries.values())

        with self._changed:
            self._changed.wait_for(all_ended, seconds)

    @contextmanager
    def reading(self) -> Iterator[list[QueryHistory]]:
        """Context manager: yield the histories. They do not change within the block."""
        with self._changed:
            yield list(self._queries.values())

    def _query(self, query_id: str, name: str) -> QueryHistory:
        if query_id not in self._queries:
            if len(self._queries) >= MOST_QUERIES:
                done = [q.query_id for q in self._queries.values() if q.status != RUNNING]
                del self._queries[done[0] if done else next(iter(self._queries))]
            self._queries[query_id] = QueryHistory(query_id, name)
        return self._queries[query_id]
