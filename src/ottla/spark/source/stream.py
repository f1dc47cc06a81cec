"""The stream reader of `spark.readStream.format("ottla")`: offsets of micro-batches.

Spark calls initialOffset for a new query. For each micro-batch it calls latestOffset(start, limit),
partitions(start, end) and commit. Offsets are those of the next record to read, in the form of Spark's Kafka connector,
`{"topic": {"0": 12}}`. Exactly-once reading depends on Spark's offset log: Spark writes `end` to it before the
micro-batch runs, and requests the same range again after a crash.

The offset log does not contain the start of the first micro-batch. If `latest` were looked up again after a crash in
that micro-batch, records would be skipped. Therefore, if the start of a query could change, its first micro-batch is
empty: its end, which is in the offset log, is the start of the query.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ottla.model import TopicPartition
from ottla.spark.environment.spark_versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from ottla.spark.options.offset_range_limit import Offsets, moves, offsets_from_json, offsets_to_json
from ottla.spark.options.options import SourceOptions
from ottla.spark.source.brokers import Brokers
from ottla.spark.source.offsets import check_start, limit_offsets, resolve, stream_ranges
from ottla.spark.source.reader import BrokerReader

NO_TOPIC_ID: Final = UUID(int=0)
"""The topic id in responses of brokers before Kafka 2.8."""


class StreamReader(BrokerReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the micro-batches of a stream, and reads their ranges of offsets.

    Spark keeps one instance for planning while the query runs, and sends a copy to each task for reading.
    """

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._brokers: Brokers | None = None
        self._beginning: dict[str, Any] | None = None
        """The start of a new query, if a second lookup could return another one. Cleared by the first call of
        `next_end` or `partitions`.
        """
        self._available_now = False
        self._target: Offsets | None = None
        self._last_trigger = float("-inf")
        self._held: Offsets | None = None
        """The end offsets of the partitions at the last lookup."""
        self._committed: Offsets = {}
        """The offsets of the last commit for the group of commitGroupId, which may have failed."""
        self._topic_ids: dict[str, UUID] = {}
        """The ids of the topics at the last lookup in which they existed."""

    def __getstate__(self) -> dict[str, Any]:
        # A connection cannot be serialized to the workers.
        return {**self.__dict__, "_brokers": None}

    @property
    def brokers(self) -> Brokers:
        """The lookups at the brokers, created when they are needed."""
        if self._brokers is None:
            self._brokers = Brokers(self.options)
        return self._brokers

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the name is Spark's
        """Return the start of a new query, which startingOffsets or a timestamp determines."""
        options = self.options
        partitions = self.brokers.partitions(options.subscription)
        self._check_topic_ids(partitions, {})
        starts = resolve(options.starting, partitions, self.brokers, "startingOffsets")
        beginning = offsets_to_json(check_start(starts, self.brokers, self.report_loss))
        self._beginning = beginning if moves(options.starting) else None
        return beginning

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - the name is Spark's
        """Return maxOffsetsPerTrigger as a limit, or no limit."""
        most = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - the name is Spark's
        """Let the query end at the end offsets that are looked up next (Trigger.AvailableNow)."""
        self._available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next micro-batch, which is `start` if the micro-batch is delayed."""
        return self.next_end(start, limit.max_rows if isinstance(limit, ReadMaxRows) else None)

    def next_end(self, start: dict[str, Any], most: int | None) -> dict[str, Any]:
        """Return the end of the next micro-batch, which has about `most` offsets or fewer, unless `most` is None.
        Return `start` if the micro-batch is delayed, if a pattern matches no topic, or for the first micro-batch of a
        query with an unstable start. Commit `start` for the group of commitGroupId, except in the last of these cases.
        """
        if self._has_unstable_start(start):
            return start
        begin = offsets_from_json(start)
        self._commit_to_group(begin)
        latest = self._held = self._latest(begin)
        if self._finds_nothing(latest):
            return start
        if self._is_too_early(begin, latest):
            return start
        if most is not None:
            new = self.brokers.earliest(latest.keys() - begin.keys())
            latest = limit_offsets(most, begin, latest, new)
        return offsets_to_json(latest)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - the name is Spark's
        """Return the end offsets of the partitions at the last lookup; None before the first one, or if it found no
        partitions.

        Spark computes the lag in the query's progress from them.
        """
        return offsets_to_json(self._held) if self._held else None

    def _commit_to_group(self, read: Offsets) -> None:
        """Commit offsets for the group of commitGroupId.

        `next_end` commits the start of the micro-batch that it plans, because that is the end of the previous one.
        Spark calls `commit` a micro-batch later.
        """
        group = self.options.commit_group_id
        if group is not None and read != self._committed:
            self.brokers.commit(group, read)
            self._committed = read

    def _has_unstable_start(self, start: dict[str, Any]) -> bool:
        """Return whether this is the first micro-batch of a query whose start a second lookup could change. Only the
        first call after `initialOffset` can return True.
        """
        is_first = self._beginning == start
        self._beginning = None
        return is_first

    def _latest(self, begin: Offsets) -> Offsets:
        if self._target is not None:
            return self._target
        partitions = self.brokers.partitions(self.options.subscription, all_must_exist=False)
        self._check_topic_ids(partitions, begin)
        latest = self.brokers.latest_from(partitions, begin)
        if self._available_now:
            self._target = latest
        return latest

    def _check_topic_ids(self, partitions: Iterable[TopicPartition], begin: Offsets) -> None:
        """Report a loss for each topic of `begin` that was deleted and created again since the last lookup. Its end
        offset does not show that if the new topic has as many records as the query has read of the old one.
        """
        topics, ids = {tp.topic for tp in partitions}, self.brokers.topic_ids
        current = {topic: ids[topic] for topic in topics & ids.keys() if ids[topic] != NO_TOPIC_ID}
        previous, self._topic_ids = self._topic_ids, self._topic_ids | current
        for topic in sorted({tp.topic for tp in begin} & previous.keys() & current.keys()):
            if previous[topic] != current[topic]:
                self.report_loss(
                    f"{topic}: it was deleted and created again, with another topic id; the query does not read the"
                    " first records of the new topic"
                )

    def _finds_nothing(self, latest: Offsets) -> bool:
        """Return whether the subscription is a pattern that matches no topic. `next_end` then lets the query stay at
        its position, as the connector does.

        A broker that has just started may not know its topics yet. That topics were recreated is noticed later, if an
        end offset is then below the query's position.
        """
        return not latest and self.options.subscription.pattern is not None

    def _is_too_early(self, begin: Offsets, latest: Offsets) -> bool:
        """Return whether the micro-batch is delayed because of minOffsetsPerTrigger; False with
        Trigger.AvailableNow.
        """
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
        if self._has_unstable_start(start):
            # The micro-batch runs again after a crash. It is empty as before, even if the start was looked up again and
            # is after `end`.
            return []
        begin, until = offsets_from_json(start), offsets_from_json(end)
        return self.planned(stream_ranges(begin, until, self.brokers, self.report_loss))

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark's checkpoint contains the offsets."""

    def stop(self) -> None:
        """Close the connections for lookups."""
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None
