"""The query monitor: a StreamingQueryListener that collects the history of queries for the terminal, metrics, reports
and the progress file.
"""

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

from ottla.logs import reason_of
from ottla.metrics.metrics import Metrics
from ottla.spark.monitoring.history import Histories
from ottla.spark.monitoring.metrics import NAMESPACE, QueryMetrics
from ottla.spark.monitoring.progress import label, micro_batch
from ottla.spark.monitoring.progress_file import QUERIES, ProgressFile
from ottla.spark.monitoring.terminal import Terminal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.metrics.metrics import MetricsReporter

log: Final = logging.getLogger("ottla.spark")

LAST_WORDS_SECONDS: Final = 10.0
"""Maximum time in seconds for which `close` waits for Spark's termination events of queries that have ended."""
MAX_RECENT: Final = 60
"""Maximum number of micro-batches per query in a progress file."""


class QueryMonitor:
    """Receives the events of a session's queries until it is closed. A context manager. Reports can also be written
    after closing.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        terminal: bool,
        reporters: Iterable[MetricsReporter],
        progress_dir: Path | None = None,
    ) -> None:
        self.histories: Histories = Histories()
        self.metrics: Metrics = Metrics(namespace=NAMESPACE, reporters=reporters)
        """The metrics of the queries, which the reporters receive."""
        self._spark = spark
        self._listener = _Listener(self.histories, QueryMetrics(self.metrics, self.histories))
        self._terminal = Terminal(self.histories, _tasks_of(spark)) if terminal else None
        self._progress = None
        if progress_dir is not None:
            name = spark.conf.get("spark.app.name") or "Spark"
            self._progress = ProgressFile(progress_dir, QUERIES, name, self._content)
        self._open = False

    def start(self) -> QueryMonitor:
        """Start receiving events, and return this monitor. Raises ConfigurationError if the progress directory cannot
        be written to.
        """
        if self._progress is not None:
            self._progress.start()
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
        """Wait up to 10 s for the events of queries that have ended, stop receiving events, and close the terminal
        output, the progress file and the reporters. May be called repeatedly.
        """
        if not self._open:
            return
        self._open = False
        try:
            active = frozenset(str(query.id) for query in self._spark.streams.active)
            self.histories.wait_for_ends(active, LAST_WORDS_SECONDS)
            self._spark.streams.removeListener(self._listener)
        except Exception as error:  # probably the session has ended; the events received so far can still be shown
            log.info(
                "Closing the query monitor, which may lack the last events of the queries, probably because the Spark "
                "session has ended: %s",
                reason_of(error),
            )
        if self._terminal is not None:
            self._terminal.close()
        if self._progress is not None:
            self._progress.close()
        self.metrics.close()

    def to_json(self) -> str:
        """Return the histories of the queries as JSON: {"queries": [...]}."""
        with self.histories.reading() as queries:
            return json.dumps({"queries": [query.to_json() for query in queries]})

    def _content(self) -> dict[str, Any]:
        with self.histories.reading() as queries:
            return {"queries": [query.to_json(MAX_RECENT) for query in queries]}

    def report(self, path: str | Path, title: str = "Streaming queries") -> Path:
        """Write a report, and return its path. The suffix .png selects only the charts, any other suffix an HTML page.
        Raises ImportError if packages of `ottla[watch]` are missing.
        """
        from ottla.spark.monitoring.report import write
        from ottla.spark.optional_dependencies import optional_dependency

        with optional_dependency("report", extra="watch"), self.histories.reading() as queries:
            return write(queries, Path(path), title)


class _Listener(StreamingQueryListener):
    """Updates the histories with Spark's events, and registers new metrics."""

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
    """Fetch pending accumulator updates, so that a client of Spark Connect can add a listener.

    The server (4.3) sends the updates from Python workers, such as those that looked up a source's schema, with its
    next response. If that is the response to adding a listener, the client treats it as an error, and removes all
    listeners.
    """
    from pyspark.sql.utils import is_remote

    if is_remote():
        spark.range(0).collect()


def _tasks_of(spark: SparkSession) -> Any:
    """Return a function that returns the numbers of finished and of all tasks in the active stages, or None if none is
    active or the session is ending. With Spark Connect, which does not report tasks, it always returns None.
    """
    from pyspark.sql.utils import is_remote

    if is_remote():
        return lambda: None
    tracker = spark.sparkContext.statusTracker()

    def tasks() -> tuple[int, int] | None:
        try:
            infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Exception:  # the session is ending
            return None
        stages = [stage for stage in infos if stage is not None]
        return (sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages)) if stages else None

    return tasks
