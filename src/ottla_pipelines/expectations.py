"""Expectations for the rows of a pipeline, and the actions for rows that do not meet them.

They are declared once, by name, and then select the rows for each action:

    CHECKS = Expectations(
        expect("is a visit", "visit is not null", "dead_letter"), expect("is not a bot", "not is_bot", "drop"),
        expect("has a referrer", "referrer <> '-'", "warn"),
    )

    good = CHECKS.good(rows)            # rows that are neither dead letters nor dropped
    dead = CHECKS.dead_letters(rows)    # the original key, value and headers, with the reason and origin in headers
    tally = CHECKS.tally(rows)          # per expectation: the number of rows checked, and of those that do not meet it

Unless the query fails, each row is in exactly one of `good`, `dead_letters` and `dropped`, even if these are used in
different flows and micro-batches, since the same expressions select them. So conditions must be deterministic: no
`rand()`, no current time.

A condition is met only if it is true, not if it is null: a row with a missing field does not meet an expectation about
that field.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import ArrayType, BooleanType, IntegerType, LongType, StringType, StructType

from ottla.config.options import nearest
from ottla.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ACTIONS: Final = {
    "warn": "the row is kept, and counted",
    "drop": "the row is removed, and counted",
    "dead_letter": "the row becomes a dead letter: the original record with the reason in a header",
    "fail": "the query ends with an error that names the expectation and the row",
}
"""The actions for a row that does not meet an expectation."""

HEADER_PREFIX: Final = "__ottla.errors."
"""Prefix of the names of the headers that are added to a dead letter, like `__connect.errors.` of Kafka Connect.

`message` has the names of the unmet expectations with the action `dead_letter`; `topic`, `partition`, `offset` and
`timestamp` (milliseconds) are those of the original record.
"""

TALLY: Final = (
    StructType()
    .add("name", StringType())
    .add("action", StringType())
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("first_offset", LongType())
    .add("last_offset", LongType())
    .add("seen", LongType())
    .add("unmet", LongType())
)
"""The columns of `Expectations.tally`, which has a row per expectation, topic partition and task. `seen` is the number
of rows checked, `unmet` the number of those that do not meet the expectation.
"""
_TALLY_ARROW: Final = pa.schema(
    [
        ("name", pa.string()),
        ("action", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("seen", pa.int64()),
        ("unmet", pa.int64()),
    ]
)
_ROW_PLACE: Final = ("topic", "partition", "offset")
_UNMET: Final = "_unmet"
_COUNTED: Final = (
    StructType()
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add(_UNMET, ArrayType(BooleanType()))
)


class Expectation(NamedTuple):
    """An expectation: its name, a condition (SQL expression over the columns of a row), and one of ACTIONS."""

    name: str
    condition: str
    action: str = "warn"


def expect(name: str, condition: str, action: str = "warn") -> Expectation:
    """Return an expectation. Raises ConfigurationError if the action is unknown, or the name or condition is empty."""
    if action not in ACTIONS:
        raise ConfigurationError(
            f"expectation {name!r}: there is no action {action!r}{nearest(action, list(ACTIONS))}; "
            f"use one of {', '.join(ACTIONS)}"
        )
    if not name.strip() or not condition.strip():
        raise ConfigurationError(f"expectation {name!r}: the name and the condition must not be empty")
    return Expectation(name, condition, action)


class Expectations:
    """A set of expectations for rows of `format("ottla")`. The columns topic, partition and offset must be present;
    others may have been added. Raises ConfigurationError if two expectations have the same name.
    """

    def __init__(self, *expectations: Expectation) -> None:
        names = [e.name for e in expectations]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ConfigurationError(
                f"expectation {min(twice)!r}: the name is used twice, but rows are counted by name"
            )
        self.expectations = expectations

    def good(self, rows: DataFrame) -> DataFrame:
        """Return the rows that are kept, with all columns. The query fails if a row does not meet an expectation with
        the action `fail`.
        """
        return rows.filter(self._passes() & ~self._is_unmet("dead_letter", "drop"))

    def dropped(self, rows: DataFrame) -> DataFrame:
        """Return the dropped rows with all columns. Dead letters are not included."""
        return rows.filter(self._is_unmet("drop") & ~self._is_unmet("dead_letter"))

    def dead_rows(self, rows: DataFrame) -> DataFrame:
        """Return the dead letters with all columns. The column `reason` has the names of the unmet expectations with
        the action `dead_letter`.
        """
        return rows.filter(self._is_unmet("dead_letter")).select("*", self._reason().alias("reason"))

    def dead_letters(self, rows: DataFrame) -> DataFrame:
        """Return the dead letters as records to write: the original key, value and headers, and headers with
        HEADER_PREFIX.

        The rows must have the columns key, value, timestamp and headers: set the option `includeHeaders` of the source.
        """
        error_headers = {
            "message": F.col("reason"),
            "topic": F.col("topic"),
            "partition": F.col("partition").cast("string"),
            "offset": F.col("offset").cast("string"),
            "timestamp": F.unix_millis("timestamp").cast("string"),
        }
        new = [
            F.struct(F.lit(HEADER_PREFIX + name).alias("key"), value.cast("binary").alias("value"))
            for name, value in error_headers.items()
        ]
        nothing = F.expr("cast(array() as array<struct<key:string,value:binary>>)")
        headers = F.concat(F.coalesce(F.col("headers"), nothing), F.array(*new))
        return self.dead_rows(rows).select("key", "value", headers.alias("headers"))

    def tally(self, rows: DataFrame) -> DataFrame:
        """Return for each expectation the number of rows checked and of rows that do not meet it, as in TALLY."""
        counted = rows.select(*_ROW_PLACE, F.array(*[_unmet(e) for e in self.expectations]).alias(_UNMET))
        # With explicit types Spark need not analyse the plan of the rows, which is forbidden in a pipeline.
        return counted.to(_COUNTED).mapInArrow(_Counter(self.expectations), TALLY)

    def _is_unmet(self, *actions: str) -> Column:
        """Return a condition that is true for rows that do not meet an expectation with one of these actions.

        It is never null, so that `filter(c)` and `filter(~c)` together return all rows.
        """
        unmet = F.lit(False)
        for expectation in self.expectations:
            if expectation.action in actions:
                unmet = unmet | _unmet(expectation)
        return unmet

    def _reason(self) -> Column:
        names = [F.when(_unmet(e), F.lit(e.name)) for e in self.expectations if e.action == "dead_letter"]
        return F.concat_ws(", ", *names)

    def _passes(self) -> Column:
        """Return a condition that is true if all expectations with the action `fail` are met, and otherwise fails the
        task.
        """
        passes = F.lit(True)
        for e in self.expectations:
            if e.action == "fail":
                place = F.concat_ws(" ", F.lit(f"expectation not met: {e.name}; at"), *_ROW_PLACE)
                # In a value, not in a condition, because Spark may remove a branch that is always true.
                error = F.raise_error(place).cast("boolean")
                passes = passes & F.when(_unmet(e), error).otherwise(F.lit(True))
        return passes


def _unmet(expectation: Expectation) -> Column:
    return ~F.coalesce(F.expr(expectation.condition).cast("boolean"), F.lit(False))


class _Counter:
    """Counts the rows of one task. Spark pickles this object for its workers."""

    def __init__(self, expectations: tuple[Expectation, ...]) -> None:
        self.expectations = expectations

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one batch with the columns of TALLY, for all batches of the task."""
        counts: dict[tuple[str, int], _Seen] = {}
        for batch in batches:
            for (topic, partition), rows in _by_place(batch):
                counts.setdefault((topic, partition), _Seen(len(self.expectations))).add(rows)
        lines = [
            (e.name, e.action, topic, partition, seen.first, seen.last, seen.rows, seen.unmet[i])
            for (topic, partition), seen in sorted(counts.items())
            for i, e in enumerate(self.expectations)
        ]
        columns = zip(*lines, strict=True) if lines else [()] * len(_TALLY_ARROW)
        arrays = [pa.array(values, f.type) for values, f in zip(columns, _TALLY_ARROW, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_TALLY_ARROW)


class _Seen:
    """The counts for one topic partition."""

    def __init__(self, expectations: int) -> None:
        self.rows = 0
        self.first: int | None = None
        self.last: int | None = None
        self.unmet = [0] * expectations

    def add(self, rows: pa.RecordBatch) -> None:
        offsets = pc.min_max(rows.column("offset")).as_py()
        self.first = offsets["min"] if self.first is None else min(self.first, offsets["min"])
        self.last = offsets["max"] if self.last is None else max(self.last, offsets["max"])
        self.rows += rows.num_rows
        flags = rows.column(_UNMET)
        width = len(self.unmet)
        for i in range(width):
            self.unmet[i] += pc.sum(pc.list_element(flags, i)).as_py() or 0


def _by_place(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, int], pa.RecordBatch]]:
    """Yield the topic partitions of a batch with their rows. A batch may have several, for example after a shuffle."""
    if not batch.num_rows:
        return
    topics, partitions = batch.column("topic"), batch.column("partition")
    places = pa.table({"topic": topics, "partition": partitions}).group_by(["topic", "partition"]).aggregate([])
    for place in places.to_pylist():
        is_here = pc.and_(pc.equal(topics, place["topic"]), pc.equal(partitions, place["partition"]))
        yield (place["topic"], place["partition"]), batch.filter(is_here)
