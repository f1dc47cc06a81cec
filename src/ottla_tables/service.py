"""The table writer process: finds topics with tables, and writes to each table when records have been pending for
ottla.table.flush.ms, or ottla.table.flush.bytes are pending.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from threading import Event
from typing import Final

from ottla.backoff import ExponentialBackoff
from ottla.errors import KafkaError
from ottla.logs import reason_of
from ottla.model import TopicPartition
from ottla_tables.errors import TableError
from ottla_tables.formats.table import Table
from ottla_tables.log.lookup import EARLIEST, Leader, Lookup, TableTopic
from ottla_tables.maintenance import Maintenance
from ottla_tables.writer import Ends, TableWriter

log: Final = logging.getLogger("ottla.tables")

POLL_SECONDS: Final = 0.5
DISCOVERY_SECONDS: Final = 5.0
RETRY_SECONDS: Final = (1.0, 60.0)

OpenWriter = Callable[[TableTopic], TableWriter]


class TopicTask:
    """The writer of one topic, with its flush times and its retries after failures."""

    def __init__(self, topic: TableTopic, lookup: Lookup, open_writer: OpenWriter, clock: Callable[[], float]) -> None:
        self.topic = topic
        self._lookup = lookup
        self._open_writer = open_writer
        self._clock = clock
        self._writer: TableWriter | None = None
        self._maintenance: dict[Table, Maintenance] = {}
        self._leaders: dict[TopicPartition, Leader] = {}
        self._ends = Ends({}, {}, {})
        self._pending_since: float | None = None
        self._backoff = ExponentialBackoff(*RETRY_SECONDS)
        self._failures = 0
        self._retry_at = 0.0

    def step(self, *, at_once: bool = False) -> int:
        """Flush the table if that is due, or with `at_once` if there are new records. Return the number of records.
        Failures are logged and retried later; with `at_once` they are raised, as KafkaError.
        """
        if self._clock() < self._retry_at:
            return 0
        try:
            rows = self._step(at_once)
        except Exception as error:  # catalogs and object stores raise errors of many libraries
            if at_once:
                self._reset()
                raise error if isinstance(error, KafkaError) else TableError(f"{self.topic.name}: {error}") from error
            self._failed(error)
            return 0
        self._failures = 0
        return rows

    def _failed(self, error: Exception) -> None:
        delay = self._backoff.backoff(self._failures)
        self._failures += 1
        self._retry_at = self._clock() + delay
        self._reset()
        unexpected = not isinstance(error, KafkaError | OSError)
        log.error(
            "Cannot write or maintain the table of topic %s; trying again in %.0f s: %s",
            self.topic.name,
            delay,
            reason_of(error),
            exc_info=unexpected,
        )

    def _reset(self) -> None:
        """Make the next step open the writer again: the table, or its dead letters, may have a newer commit."""
        self._writer = None
        self._leaders = {}

    def _step(self, at_once: bool) -> int:
        if self._writer is None:
            self._writer = self._open_writer(self.topic)
            self._maintenance = {
                table: Maintenance(self.topic.name, table, self.topic.config) for table in self._writer.tables
            }
        writer, config = self._writer, self.topic.config
        ends = self._read_ends()
        writer.report_truncation(ends)
        if not writer.is_behind(ends):
            self._pending_since = None
            return 0
        now = self._clock()
        if self._pending_since is None:
            self._pending_since = now
        is_due = at_once or now - self._pending_since >= config.ottla_table_flush_ms / 1000
        if not is_due and writer.backlog_bytes(ends) < config.ottla_table_flush_bytes:
            return 0
        self._pending_since = None
        began = time.perf_counter()
        rows = writer.flush(ends)
        if rows:
            log.info(
                "Topic %s: processed %d record(s) for its table in %.2f s",
                self.topic.name,
                rows,
                time.perf_counter() - began,
            )
            for table in writer.changed:
                self._maintenance[table].run()
        return rows

    def _read_ends(self) -> Ends:
        leaders = self._lookup.leaders(self.topic.name)
        if leaders != self._leaders:
            self._ends = self._ends_of(leaders)
            self._leaders = leaders
        marks = self._lookup.offsets(leaders)
        return self._ends._replace(
            high_watermarks={tp.partition: offset for tp, offset in marks.items()},
            are_current=lambda: self._lookup.leaders(self.topic.name) == leaders,
        )

    def _ends_of(self, leaders: Mapping[TopicPartition, Leader]) -> Ends:
        directories = self._lookup.directories(leaders)
        for tp in leaders.keys() - directories.keys():
            log.warning(
                "%s: not written to the table, because the log of its leader, broker %d, is not on this machine, or "
                "the broker did not return its log directories; run `ottla tables run` on the machine of the broker",
                tp,
                leaders[tp].broker_id,
            )
        starts = self._lookup.offsets(leaders, EARLIEST)
        return Ends(
            {tp.partition: path for tp, path in directories.items()},
            {tp.partition: offset for tp, offset in starts.items()},
            {},
        )


class TableService:
    """Writes all tables, or those of some topics."""

    def __init__(
        self,
        lookup: Lookup,
        open_writer: OpenWriter,
        names: Iterable[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lookup = lookup
        self._open_writer = open_writer
        self._names = None if names is None else list(names)
        self._clock = clock
        self._tasks: dict[str, TopicTask] = {}
        self._discover_at = 0.0

    def run(self, stopping: Event) -> None:
        """Write tables until the event is set."""
        while not stopping.is_set():
            if not self.step():
                stopping.wait(POLL_SECONDS)

    def step(self) -> int:
        """Look up the topics with tables if that is due, and flush the tables that are due. Return the number of
        records.
        """
        if self._clock() >= self._discover_at:
            try:
                self._discover()
            except KafkaError as error:
                log.warning("Cannot look up the topics with tables; retrying in %g s: %s", DISCOVERY_SECONDS, error)
            self._discover_at = self._clock() + DISCOVERY_SECONDS
        return sum(task.step() for task in list(self._tasks.values()))

    def write_all(self) -> int:
        """Write all committed records that are not in the tables yet, of the partitions whose leader has its log on
        this machine. Return the number of records. Raises KafkaError if that fails.
        """
        self._discover()
        rows = 0
        for task in self._tasks.values():
            while written := task.step(at_once=True):
                rows += written
        return rows

    def _discover(self) -> None:
        topics = {topic.name: topic for topic in self._lookup.topics(self._names)}
        for name in self._tasks.keys() - topics.keys():
            log.info(
                "Topic %s: not writing its table for now, because the topic was deleted, has no ottla.table.format or "
                "cannot be described",
                name,
            )
            del self._tasks[name]
        for name, topic in topics.items():
            task = self._tasks.get(name)
            if task is not None and _same(task.topic, topic):
                continue
            log.info("Topic %s: writing a table in format %s", name, topic.config.ottla_table_format)
            self._tasks[name] = TopicTask(topic, self._lookup, self._open_writer, self._clock)
        if self._names is not None and (missing := set(self._names) - topics.keys()):
            raise TableError(
                f"no such topic with a table: {', '.join(sorted(missing))}; set the topic config ottla.table.format"
            )


def _same(one: TableTopic, other: TableTopic) -> bool:
    return one.topic_id == other.topic_id and one.config.originals == other.config.originals
