"""`spark.readStream.format("ottla")`: which offsets the next micro-batch takes.

Spark calls initialOffset (new query only), latestOffset(start, limit), partitions(start, end), and so on, then commit.
Offsets have the form of Spark's Kafka connector, `{"topic": {"0": 12}}`, "next to read". What is exactly once here
rests on Spark's own log: it writes `end` before the micro-batch runs and asks for the same range again after a crash.

One thing that log lacks is where the first micro-batch began. If `latest` were looked up again after a crash in the
first micro-batch, its records would be skipped. So a query that starts where a second look might not find it again
has an empty first micro-batch: its end, which the log has, is where the query began.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from ottla.spark.brokers import Brokers
from ottla.spark.offset_range_limit import Offsets, moves, offsets_from_json, offsets_to_json
from ottla.spark.offsets import check_start, limit_offsets, resolve, stream_ranges
from ottla.spark.options import SourceOptions
from ottla.spark.reader import BrokerReader


class StreamReader(BrokerReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The planning side lives as long as the query; the reading side is a copy per task."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._brokers: Brokers | None = None
        self._beginning: dict[str, Any] | None = None
        """Where a new query begins, if a second look might not find it, until its first micro-batch is planned."""
        self._available_now = False
        self._target: Offsets | None = None
        self._last_trigger = float("-inf")
        self._held: Offsets | None = None
        """The ends of the partitions as they were seen last."""
        self._committed: Offsets = {}
        """What the group of commitGroupId was told last."""

    def __getstate__(self) -> dict[str, Any]:
        # A connection does not travel to the workers.
        return {**self.__dict__, "_brokers": None}

    @property
    def brokers(self) -> Brokers:
        """The connection for look-ups, made at first use."""
        if self._brokers is None:
            self._brokers = Brokers(self.options)
        return self._brokers

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the name is Spark's
        """Where a new query begins: startingOffsets."""
        options = self.options
        partitions = self.brokers.partitions(options.subscription)
        starts = resolve(options.starting, partitions, self.brokers, "startingOffsets")
        beginning = offsets_to_json(check_start(starts, self.brokers, self.report_loss))
        self._beginning = beginning if moves(options.starting) else None
        return beginning

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - the name is Spark's
        """maxOffsetsPerTrigger, if set."""
        most = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - the name is Spark's
        """From now on, what is there at the next look is all there is."""
        self._available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next micro-batch; `start` itself where there is nothing to read yet."""
        if self._takes_beginning(start):
            return start
        begin = offsets_from_json(start)
        self._tell_group(begin)
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
        """What there is to read, as it was when the last micro-batch was planned: a query's progress shows its lag."""
        return offsets_to_json(self._held) if self._held else None

    def _tell_group(self, read: Offsets) -> None:
        """Commit to the group of commitGroupId. Here and not in `commit`, which Spark calls a micro-batch late.

        The next micro-batch is planned when the one before is done, so its start is what was read.
        """
        group = self.options.commit_group_id
        if group is not None and read != self._committed:
            self.brokers.commit(group, read)
            self._committed = read

    def _takes_beginning(self, start: dict[str, Any]) -> bool:
        """Whether this is the first micro-batch of a query that begins where a second look might not find it again."""
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
        """Whether a pattern matches no topic any more. As the connector does, the query stays where it is.

        A broker that has just started may know no topics yet; if they come back as others, their ends tell.
        """
        return not latest and self.options.subscription.pattern is not None

    def _is_too_early(self, begin: Offsets, latest: Offsets) -> bool:
        """Whether minOffsetsPerTrigger holds the micro-batch back; never when all that is there is to be read."""
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
        """The tasks of one micro-batch."""
        if self._takes_beginning(start):
            # Run again after a crash: empty as before, although `start` was looked up anew and may lie after `end`.
            return []
        begin, until = offsets_from_json(start), offsets_from_json(end)
        return self.planned(stream_ranges(begin, until, self.brokers, self.report_loss))

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: Spark's checkpoint holds the offsets."""

    def stop(self) -> None:
        """Close the connection for look-ups."""
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None
