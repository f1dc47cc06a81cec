"""The stream reader for Spark 4.0 and 4.1, whose latestOffset() has no parameters.

Spark passes the position of the query to the reader only when it plans a micro-batch. After a restart, the first
latestOffset() therefore cannot take the position into account: limits would not hold, and the reader does not accept
them.

These versions look up the end of the first micro-batch before its start. The end can therefore not be set to the start,
as `StreamReader` does. Instead, a start after the end is moved back to the end. If the first micro-batch runs again
after a crash, its end is in the offset log, and only the start is looked up again. With startingOffsets=latest, this
new start may be later than the end; the micro-batch is then empty, as in the first run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition

from ottla.errors import ConfigurationError, UnknownTopicOrPartitionError
from ottla.spark.options.offset_range_limit import offsets_from_json, offsets_to_json
from ottla.spark.options.options import SourceOptions
from ottla.spark.source.stream import StreamReader


class UnlimitedStreamReader(StreamReader):
    """A stream reader without limits, which stores the position of the last planned micro-batch.

    Raises ConfigurationError for maxOffsetsPerTrigger and minOffsetsPerTrigger.
    """

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        limits = {
            "maxOffsetsPerTrigger": options.max_offsets_per_trigger,
            "minOffsetsPerTrigger": options.min_offsets_per_trigger,
        }
        for name, value in limits.items():
            if value is not None:
                from pyspark import __version__

                raise ConfigurationError(
                    f"{name} needs Spark 4.2 or later, and this is {__version__}: pip install 'pyspark>=4.2',"
                    f" or leave {name} out"
                )
        self._position: dict[str, Any] | None = None
        """The end of the last planned micro-batch or, before the first, the start of a new query; None while neither is
        known, as after a restart.
        """
        self._initial: dict[str, Any] | None = None
        """The start of a new query."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the name is Spark's
        """Return the start of a new query, which is not after the end that Spark has looked up."""
        beginning = super().initialOffset()
        self._beginning = None
        if self._held is not None:
            beginning = _not_after(beginning, offsets_to_json(self._held))
        self._position = self._initial = beginning
        return beginning

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        """Return the end of the next micro-batch. If no topic matches the pattern, return the position, or raise
        UnknownTopicOrPartitionError if the position is not known.
        """
        if self._position is not None:
            return self.next_end(self._position, None)
        latest = self._held = self._latest({})
        if self._finds_nothing(latest):
            raise UnknownTopicOrPartitionError(
                f"subscribePattern: no topic matches {self.options.subscription.pattern!r}; the query continues after a"
                " restart if one does"
            )
        return offsets_to_json(latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of one micro-batch."""
        if start == self._initial:
            start = _not_after(start, end)
        self._position = end
        return super().partitions(start, end)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit offsets for the group of commitGroupId, because there may be no later call of latestOffset() that
        commits them.
        """
        self._commit_to_group(offsets_from_json(end))


def _not_after(start: dict[str, Any], end: dict[str, Any]) -> dict[str, Any]:
    """Return the start, limited to the end in each partition, and without the partitions that the end lacks."""
    begin, until = offsets_from_json(start), offsets_from_json(end)
    return offsets_to_json({tp: min(offset, until[tp]) for tp, offset in begin.items() if tp in until})
