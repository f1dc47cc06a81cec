"""`watch`: a StreamingQueryListener that remembers, and hands what it knows to terminal, metrics and report."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from ottla.metrics.metrics import Metrics
from ottla.spark.monitoring.history import Histories
from ottla.spark.monitoring.metrics import NAMESPACE, QueryMetrics
from ottla.spark.monitoring.progress import label, micro_batch
from ottla.spark.monitoring.terminal import Terminal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.metrics.metrics import MetricsReporter

log = logging.getLogger("ottla.spark")

LAST_WORDS_SECONDS: Final = 10.0
"""How long `close` waits for what Spark has still to tell of queries that have ended."""


class QueryMonitor:
    """Watches a session until it is closed; a context manager. Reports can be asked for afterwards, too."""

    def __init__(self, spark: SparkSession, *, terminal: bool, reporters: Iterable[MetricsReporter]) -> None:
        self.histories = Histories()
        self.metrics = Metrics(namespace=NAMESPACE, reporters=reporters)
        """The queries as metrics, for reporters."""
        self._spark = spark
        self._listener = _Listener(self.histories, QueryMetrics(self.metrics, self.histories))
        self._terminal = Terminal(self.histories, _tasks_of(spark)) if terminal else None
        self._open = False

    def start(self) -> QueryMonitor:
        """Begin to listen."""
        _settle_accumulators(self._spark)
        self._spark.streams.addListener(self._listener)
        if self._terminal is not None:
            self._terminal.start()
        self._open = True
        return self

    def __enter__(self) -> QueryMonitor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, when what has ended was told. Twice does no harm."""
        if not self._open:
            return
        self._open = False
        try:
            active = frozenset(str(query.id) for query in self._spark.streams.active)
            self.histories.wait_for_ends(active, LAST_WORDS_SECONDS)
            self._spark.streams.removeListener(self._listener)
        except Exception as error:  # the session is gone; what was told until then can still be shown
            log.info("the session ended before its watcher: %s", error)
        if self._terminal is not None:
            self._terminal.close()
        self.metrics.close()

    def to_json(self) -> str:
        """All that is known, as a JSON text: {"queries": [...]}."""
        with self.histories.reading() as queries:
            return json.dumps({"queries": [query.to_json() for query in queries]})

    def report(self, path: str | Path, title: str = "Streaming queries") -> Path:
        """Write a page (.html, with its chart inside) or only the chart (.png); its path. Needs `ottla[watch]`."""
        from ottla.spark.optional_dependencies import optional_dependency

        with optional_dependency("report", extra="watch"):
            from ottla.spark.monitoring.report import write
        with self.histories.reading() as queries:
            return write(queries, Path(path), title)


class _Listener(StreamingQueryListener):
    """Spark's events come here, each on a thread of its own."""

    def __init__(self, histories: Histories, metrics: QueryMetrics) -> None:
        self._histories = histories
        self._metrics = metrics

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - the name is Spark's
        self._histories.started(str(event.id), label(event.name, str(event.id)))
        self._metrics.update()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self._histories.progressed(micro_batch(json.loads(event.progress.json)))
        self._metrics.update()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        self._histories.ended(str(event.id), event.exception)


def _settle_accumulators(spark: SparkSession) -> None:
    """See to it that Spark Connect's client can listen.

    What Python workers have accumulated since the last execution, as in looking up a source's schema, the server (4.3)
    sends with the next one. Where that is the listener's, its client takes it for an error, and drops all listeners.
    """
    from pyspark.sql.utils import is_remote

    if is_remote():
        spark.range(0).collect()


def _tasks_of(spark: SparkSession) -> Any:
    """How many tasks of running jobs are done; through Connect nobody tells."""
    from pyspark.sql.utils import is_remote

    if is_remote():
        return lambda: None
    tracker = spark.sparkContext.statusTracker()

    def tasks() -> tuple[int, int] | None:
        try:
            infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Exception:  # the session is going
            return None
        stages = [stage for stage in infos if stage is not None]
        return (sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages)) if stages else None

    return tasks
