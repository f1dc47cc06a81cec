"""The stream reader of `spark.readStream.format("ottla")`: offsets of micro-batches.

Spark calls initialOffset (new query only), latestOffset(start, limit), partitions(start, end), and so on, then commit.
Offsets have the form of Spark's Kafka connector, `{"topic": {"0": 12}}`, the next to read. Exactly-once reading rests
on Spark's offset log: Spark writes `end` before the micro-batch runs and requests the same range again after a crash.

The offset log lacks the start of the first micro-batch. If `latest` were looked up again after a crash in the first
micro-batch, its records would be skipped. So a query whose start could change has an empty first micro-batch, whose
end, which is in the log, is the start of the query.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from ottla.spark.options.offset_range_limit import Offsets, moves, offsets_from_json, offsets_to_json
from ottla.spark.options.options import SourceOptions
from ottla.spark.source.brokers import Brokers
from ottla.spark.source.offsets import check_start, limit_offsets, resolve, stream_ranges
from ottla.spark.source.reader import BrokerReader


class StreamReader(BrokerReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream reader.

    Spark keeps one instance for planning while the query runs, and sends a copy to each task for reading.
    """

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._brokers: Brokers | None = None
        self._beginning: dict[str, Any] | None = None
        """Start of a new query, if a second lookup could return another one, until its first micro-batch is planned."""
        self._available_now = False
        self._target: Offsets | None = None
        self._last_trigger = float("-inf")
        self._held: Offsets | None = None
        """The partitions' end offsets at the last lookup."""
        self._committed: Offsets = {}
        """The last offsets committed to the group of commitGroupId."""

    def __getstate__(self) -> dict[str, Any]:
        # A connection cannot be serialized to the workers.
        return {**self.__dict__, "_brokers": None}

    @property
    def brokers(self) -> Brokers:
        """The connection for lookups, opened on first use."""
        if self._brokers is None:
            self._brokers = Brokers(self.options)
        return self._brokers

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the name is Spark's
        """Return the start of a new query: startingOffsets."""
        options = self.options
        partitions = self.brokers.partitions(options.subscription)
        starts = resolve(options.starting, partitions, self.brokers, "startingOffsets")
        beginning = offsets_to_json(check_start(starts, self.brokers, self.report_loss))
        self._beginning = beginning if moves(options.starting) else None
        return beginning

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - the name is Spark's
        """Return maxOffsetsPerTrigger, if set."""
        most = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - the name is Spark's
        """Make the next lookup final: the query ends there."""
        self._available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next micro-batch, or `start` if there is nothing to read yet."""
        if self._takes_beginning(start):
            return start
        begin = offsets_from_json(start)
        self._commit_to_group(begin)
        latest = self._held = self._latest(begin)
        if self._finds_nothing(latest):
            return start
        if self._is_too_early(begin, latest):
            return start
        if isinstance(limit, ReadMaxRows):
            new = self.brokers.earliest(latest.keys() - begin.keys())
            latest = limit_offsets(limit.max_rows, begin, latest, new)
        return offsets_to_json(latest)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - the name is Spark's
        """Return the end offsets at the planning of the last micro-batch, from which a query's progress computes its
        lag.
        """
        return offsets_to_json(self._held) if self._held else None

    def _commit_to_group(self, read: Offsets) -> None:
        """Commit to the group of commitGroupId. Not in `commit`, which Spark calls one micro-batch late.

        Spark plans a micro-batch after the previous one, so the start of the next is what was read.
        """
        group = self.options.commit_group_id
        if group is not None and read != self._committed:
            self.brokers.commit(group, read)
            self._committed = read

    def _takes_beginning(self, start: dict[str, Any]) -> bool:
        """Return whether this is the first micro-batch of a query whose start could change with a second lookup."""
        is_first = self._beginning == start
        self._beginning = None
        return is_first

    def _latest(self, begin: Offsets) -> Offsets:
        if self._target is not None:
            return self._target
        partitions = self.brokers.partitions(self.options.subscription, all_must_exist=False)
        latest = self.brokers.latest_from(partitions, begin)
        if self._available_now:
            self._target = latest
        return latest

    def _finds_nothing(self, latest: Offsets) -> bool:
        """Return whether a pattern matches no topic any more. As in the connector, the query then keeps its position.

        A broker that has just started may not know its topics yet; if they were recreated, their end offsets show it.
        """
        return not latest and self.options.subscription.pattern is not None

    def _is_too_early(self, begin: Offsets, latest: Offsets) -> bool:
        """Return whether minOffsetsPerTrigger delays the micro-batch; never with Trigger.AvailableNow."""
        least = self.options.min_offsets_per_trigger
        if least is None or self._available_now:
            return False
        now = time.monotonic()
        waited_ms = (now - self._last_trigger) * 1000
        waiting = sum(latest.values()) - sum(begin.get(tp, 0) for tp in latest)
        if waiting < least and waited_ms < self.options.max_trigger_delay_ms:
            return True
        self._last_trigger = now
        return False

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of one micro-batch."""
        if self._takes_beginning(start):
            # Run again after a crash: empty as before, although `start` was looked up again and may be after `end`.
            return []
        begin, until = offsets_from_json(start), offsets_from_json(end)
        return self.planned(stream_ranges(begin, until, self.brokers, self.report_loss))

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark's checkpoint holds the offsets."""

    def stop(self) -> None:
        """Close the connection for lookups."""
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None
