"""The table of jobs for both connectors: every option of the source has its rows.

All rows take minutes, so only the rows in `ALWAYS` run unless OTTLA_CONNECTOR_ROWS is "all":

    OTTLA_CONNECTOR_ROWS=all make test ARGS=tests/spark/connector
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import pytest

ALWAYS = {
    "offsets",
    "headers",
    "more tasks",
    "compressions",
    "the broker's time in message format 1",
    "committed records",
    "from offsets and latest",
    "a limit",
    "an unknown topic",
    "records that were deleted",
    "nulls",
    "partitions given and of keys",
    "a row without topic",
    "a number as value",
}
"""Rows that always run: one for each kind of bug that occurred or could occur."""


class Named(Protocol):
    """A row of one of the tables."""

    @property
    def name(self) -> str:
        """What the row tests."""
        ...


T = TypeVar("T")
R = TypeVar("R", bound=Named)
ALL = os.environ.get("OTTLA_CONNECTOR_ROWS") == "all"


def selected(rows: Sequence[R]) -> list[R]:
    """Return the rows that run."""
    return [row for row in rows if row.name in ALWAYS or ALL]


def compatibility(subject: str, what: str) -> pytest.MarkDecorator:
    """Return a mark that records for docs/compatibility.md what Spark's connector did, if all rows run."""
    mark = pytest.mark.compatibility("Spark's Kafka connector", subject, what)
    return mark if ALL else pytest.mark.spark


def first_or_all(always: T, *others: T) -> list[T]:
    """Return the first of several parameters, or all of them if all rows run."""
    return [always, *others] if ALL else [always]


PLAIN = {"subscribe": "plain"}
WAITS_LITTLE = {"failOnDataLoss": "false", "kafkaConsumer.pollTimeoutMs": "1000"}
"""Spark's connector waits this long for missing records."""


class Row(NamedTuple):
    """A batch that both connectors read with equal rows, schema and number of tasks; it has `rows` records."""

    name: str
    rows: int
    options: Mapping[str, str]
    but: str = ""
    """A column that differs, as documented."""


BATCHES = (
    Row("one topic", 90, PLAIN),
    Row("several topics", 95, {"subscribe": " plain, other.topic,"}),
    Row("no records", 0, {"subscribe": "empty"}),
    Row("a pattern", 95, {"subscribePattern": "plain|ther.t"}),
    Row("partitions", 60, {"assign": '{"plain": [0, 2]}'}),
    Row("a partition that is not there", 50, {"assign": '{"plain": [0, 9]}'}),
    Row("headers", 90, {**PLAIN, "includeHeaders": "true"}),
    Row("no headers", 90, {**PLAIN, "includeHeaders": "FALSE"}),
    Row("from earliest", 90, {**PLAIN, "startingOffsets": " Earliest "}),
    Row("to latest", 90, {**PLAIN, "endingOffsets": "LATEST"}),
    Row(
        "offsets",
        10 + 30,
        {
            **PLAIN,
            "startingOffsets": '{"plain": {"0": 10, "1": -2, "2": 10}}',
            "endingOffsets": '{"plain": {"0": 20, "1": -1, "2": -1}}',
        },
    ),
    Row("a time", 41 + 21 + 1, {**PLAIN, "startingTimestamp": "9000"}),
    Row("until a time", 9 + 9 + 9, {**PLAIN, "endingTimestamp": "9000"}),
    Row("until a time that is not reached", 90, {**PLAIN, "endingTimestamp": "99000"}),
    Row(
        "a time beyond some partitions",
        21 + 1,
        {**PLAIN, "startingTimestamp": "29000", "startingOffsetsByTimestampStrategy": "latest"},
    ),
    Row(
        "times of partitions",
        3 + 1 + 1,
        {
            **PLAIN,
            "startingOffsetsByTimestamp": '{"plain": {"0": 45000, "1": 29000, "2": 8500}}',
            "endingOffsetsByTimestamp": '{"plain": {"0": 48000, "1": 90000, "2": 90000}}',
        },
    ),
    Row(
        "times win over offsets",
        21 + 1,
        {
            **PLAIN,
            "startingOffsets": '{"plain": {"0": 49, "1": 29, "2": 9}}',
            "startingOffsetsByTimestamp": '{"plain": {"0": 29000, "1": 29000, "2": 99000}}',
            "startingOffsetsByTimestampStrategy": "LATEST",
        },
    ),
    Row(
        "one time wins over times of partitions",
        21 + 1,
        {
            **PLAIN,
            "startingTimestamp": "29000",
            "startingOffsetsByTimestamp": '{"plain": {"0": 0, "1": 0, "2": 0}}',
            "startingOffsetsByTimestampStrategy": "latest",
        },
    ),
    Row("what is left after deletion", 35, {"subscribe": "cut"}),
    Row(
        "deleted records that are asked for",
        35,
        {"subscribe": "cut", "startingOffsets": '{"cut": {"0": 0, "1": 0}}', "failOnDataLoss": "false"},
    ),
    Row(
        "an end that is not there",
        90,
        {**PLAIN, "endingOffsets": '{"plain": {"0": 60, "1": -1, "2": -1}}', **WAITS_LITTLE},
    ),
    Row("more tasks", 90, {**PLAIN, "minPartitions": "7"}),
    Row("fewer tasks than partitions", 90, {**PLAIN, "minPartitions": "2"}),
    Row("a limit of records per task", 90, {**PLAIN, "maxRecordsPerPartition": "20"}),
    Row("limits of streams", 90, {**PLAIN, "maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "1"}),
    Row("a delay of streams", 90, {**PLAIN, "maxTriggerDelay": "1s"}),
    Row("compressions", 50, {"subscribe": "packed"}),
    Row("message format 0", 9, {"subscribe": "format0", "includeHeaders": "true"}, but="timestampType"),
    Row("message format 1", 15, {"subscribe": "format1"}),
    Row("the broker's time in message format 1", 15, {"subscribe": "stamped1"}),
    Row("the broker's time", 5, {"subscribe": "stamped"}),
    Row("all records of transactions", 20, {"subscribe": "transactions"}),
    Row("committed records", 10, {"subscribe": "transactions", "kafka.isolation.level": "read_committed"}),
    Row("a prefix of groups", 90, {**PLAIN, "groupIdPrefix": "mine"}),
    Row("a group", 90, {**PLAIN, "kafka.group.id": "mine"}),
    Row("the consumer's options", 90, {**PLAIN, "kafka.max.poll.records": "3", "kafka.fetch.max.bytes": "2000"}),
    Row("names in other cases", 60, {"ASSIGN": '{"plain": [0, 2]}', "INCLUDEHEADERS": "true"}),
    Row(
        "patience",
        90,
        {
            **PLAIN,
            "kafkaConsumer.pollTimeoutMs": "9000",
            "kafka.request.timeout.ms": "9000",
            "fetchOffset.numRetries": "2",
            "fetchOffset.retryIntervalMs": "5",
        },
    ),
)


class Stream(NamedTuple):
    """A streaming query that is run again on its checkpoint after each change; it reads `rows` in each run."""

    name: str
    rows: tuple[int, ...]
    options: Mapping[str, str]
    changes: tuple[str, ...] = ()
    """The changes between the runs: "records" (10 to each partition), "partition" (a new one, with a record), "topic"
    (a new one, with a record)."""
    fixed_first: bool = False
    """Whether our query starts with an additional empty micro-batch, as documented."""


EARLY = {"startingOffsets": "earliest"}
STREAMS = (
    Stream("from earliest", (40, 20, 1), {"subscribe": "{}", **EARLY}, ("records", "partition")),
    Stream("from latest", (0, 20), {"subscribe": "{}"}, ("records",)),
    Stream(
        "from offsets",
        (30, 1, 20),
        {"subscribe": "{}", "startingOffsets": '{{"{}": {{"0": 10, "1": -2}}}}'},
        ("partition", "records"),
    ),
    Stream(
        "from offsets and latest",
        (10, 20),
        {"subscribe": "{}", "startingOffsets": '{{"{}": {{"0": 10, "1": -1}}}}'},
        ("records",),
        fixed_first=True,
    ),
    Stream("from a time", (22, 20), {"subscribe": "{}", "startingTimestamp": "9000"}, ("records",)),
    Stream(
        "from times",
        (11, 20),
        {
            "subscribe": "{}",
            "startingOffsetsByTimestamp": '{{"{}": {{"0": 9000, "1": 99000}}}}',
            "startingOffsetsByTimestampStrategy": "latest",
        },
        ("records",),
        fixed_first=True,
    ),
    Stream("a pattern that grows", (40, 1, 20), {"subscribePattern": "^{}", **EARLY}, ("topic", "records")),
    Stream("partitions", (20, 10, 0), {"assign": '{{"{}": [1]}}', **EARLY}, ("records", "partition")),
    Stream("a limit", (40, 20), {"subscribe": "{}", **EARLY, "maxOffsetsPerTrigger": "14"}, ("records",)),
    Stream(
        "limits below and above",
        (40,),
        {"subscribe": "{}", **EARLY, "minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "20"},
    ),
    Stream(
        "a lower limit with patience",
        (40, 20),
        {"subscribe": "{}", **EARLY, "minOffsetsPerTrigger": "15", "maxTriggerDelay": "1m"},
        ("records",),
    ),
    Stream("a task's limit", (40,), {"subscribe": "{}", **EARLY, "maxRecordsPerPartition": "7", "minPartitions": "9"}),
    Stream("a time to end is ignored", (40,), {"subscribe": "{}", **EARLY, "endingTimestamp": "9000"}),
    Stream(
        "headers of a stream", (40,), {"subscribe": "{}", **EARLY, "includeHeaders": "true", "groupIdPrefix": "mine"}
    ),
)


class InvalidRead(NamedTuple):
    """Options that both connectors reject; our error contains `words`."""

    name: str
    words: tuple[str, ...]
    options: Mapping[str, str]


INVALID_READS = (
    InvalidRead("nothing to read", ("subscribe", "assign"), {}),
    InvalidRead("two things to read", ("subscribe and subscribePattern",), {**PLAIN, "subscribePattern": "x"}),
    InvalidRead("no topic", ("subscribe", "','"), {"subscribe": " , "}),
    InvalidRead("no pattern", ("subscribePattern", "empty"), {"subscribePattern": " "}),
    InvalidRead("a pattern that is none", ("subscribePattern", "'a('"), {"subscribePattern": "a("}),
    InvalidRead("no partition", ("assign", "'plain'"), {"assign": "plain"}),
    InvalidRead("a partition that is no number", ("assign", "'0'"), {"assign": '{"plain": ["0"]}'}),
    InvalidRead("an unknown topic", ("no-such-topic", "subscribe"), {"subscribe": "no-such-topic"}),
    InvalidRead("a wrong start", ("startingOffsets", "'soon'", "earliest"), {**PLAIN, "startingOffsets": "soon"}),
    InvalidRead("an empty start", ("startingOffsets", "''"), {**PLAIN, "startingOffsets": ""}),
    InvalidRead(
        "offsets that are no numbers", ("startingOffsets", '"x"'), {**PLAIN, "startingOffsets": '{"plain": {"0": "x"}}'}
    ),
    InvalidRead(
        "offsets of some partitions",
        ("startingOffsets", "plain-1"),
        {**PLAIN, "startingOffsets": '{"plain": {"0": 1}}'},
    ),
    InvalidRead(
        "offsets of more partitions",
        ("startingOffsets", "x-0"),
        {"assign": '{"plain": [0]}', "startingOffsets": '{"plain": {"0": 1}, "x": {"0": 1}}'},
    ),
    InvalidRead(
        "a start without record",
        ("startingTimestamp", "99000", "startingOffsetsByTimestampStrategy"),
        {**PLAIN, "startingTimestamp": "99000"},
    ),
    InvalidRead("a start that is no time", ("startingTimestamp", "'noon'"), {**PLAIN, "startingTimestamp": "noon"}),
    InvalidRead(
        "times of some partitions",
        ("startingOffsetsByTimestamp", "plain-1"),
        {**PLAIN, "startingOffsetsByTimestamp": '{"plain": {"0": 1}}'},
    ),
    InvalidRead(
        "an unknown strategy",
        ("startingOffsetsByTimestampStrategy", "'first'"),
        {**PLAIN, "startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "first"},
    ),
    InvalidRead("too few tasks", ("minPartitions", "'0'"), {**PLAIN, "minPartitions": "0"}),
    InvalidRead("tasks that are no number", ("minPartitions", "'many'"), {**PLAIN, "minPartitions": "many"}),
    InvalidRead(
        "too few records per task", ("maxRecordsPerPartition", "'0'"), {**PLAIN, "maxRecordsPerPartition": "0"}
    ),
    InvalidRead(
        "the lower limit above the upper",
        ("minOffsetsPerTrigger", "9", "5"),
        {**PLAIN, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"},
    ),
    InvalidRead("headers or not", ("includeHeaders", "'perhaps'"), {**PLAIN, "includeHeaders": "perhaps"}),
    InvalidRead("fail or not", ("failOnDataLoss", "'perhaps'"), {**PLAIN, "failOnDataLoss": "perhaps"}),
    *(
        InvalidRead(f"the consumer's {name}", (f"kafka.{name}", "'x'"), {**PLAIN, f"kafka.{name}": "x"})
        for name in (
            "auto.offset.reset",
            "key.deserializer",
            "value.deserializer",
            "enable.auto.commit",
            "interceptor.classes",
        )
    ),
)
"""Invalid for batches and for streams."""
INVALID_BATCHES = (
    *INVALID_READS,
    InvalidRead(
        "a wrong value for the consumer", ("fetch.min.bytes", "many"), {**PLAIN, "kafka.fetch.min.bytes": "many"}
    ),
    InvalidRead("a batch from latest", ("startingOffsets", "latest"), {**PLAIN, "startingOffsets": "latest"}),
    InvalidRead(
        "a batch from -1",
        ("startingOffsets", "-1"),
        {"subscribe": "other.topic", "startingOffsets": '{"other.topic": {"0": -1}}'},
    ),
    InvalidRead(
        "a start below earliest",
        ("startingOffsets", "-3"),
        {"subscribe": "other.topic", "startingOffsets": '{"other.topic": {"0": -3}}', "failOnDataLoss": "false"},
    ),
    InvalidRead("a batch to earliest", ("endingOffsets", "earliest"), {**PLAIN, "endingOffsets": "earliest"}),
    InvalidRead(
        "a batch to -2",
        ("endingOffsets", "-2"),
        {"subscribe": "other.topic", "endingOffsets": '{"other.topic": {"0": -2}}'},
    ),
    InvalidRead(
        "a start behind the end",
        ("startingOffsets", "4", "2"),
        {
            "subscribe": "other.topic",
            "startingOffsets": '{"other.topic": {"0": 4}}',
            "endingOffsets": '{"other.topic": {"0": 2}}',
        },
    ),
    InvalidRead(
        "a start behind the last record",
        ("other.topic-0", "9", "5"),
        {"subscribe": "other.topic", "startingOffsets": '{"other.topic": {"0": 9}}'},
    ),
    InvalidRead(
        "times in the wrong order",
        ("startingTimestamp", "endingTimestamp"),
        {**PLAIN, "startingTimestamp": "9000", "endingTimestamp": "2000"},
    ),
    InvalidRead(
        "times of partitions in the wrong order",
        ("startingOffsetsByTimestamp", "9000", "2000"),
        {
            "subscribe": "other.topic",
            "startingOffsetsByTimestamp": '{"other.topic": {"0": 9000}}',
            "endingOffsetsByTimestamp": '{"other.topic": {"0": 2000}}',
        },
    ),
    InvalidRead(
        "records that were deleted",
        ("cut-0", "0 to 4", "failOnDataLoss"),
        {"subscribe": "cut", "startingOffsets": '{"cut": {"0": 0, "1": 0}}'},
    ),
    InvalidRead(
        "an end that is not there",
        ("plain-0", "60", "failOnDataLoss"),
        {**PLAIN, "endingOffsets": '{"plain": {"0": 60, "1": -1, "2": -1}}', "kafkaConsumer.pollTimeoutMs": "1000"},
    ),
)
INVALID_STREAMS = (
    *INVALID_READS,
    InvalidRead("a stream's end", ("endingOffsets",), {**PLAIN, "endingOffsets": "latest"}),
    InvalidRead(
        "a stream's end in time",
        ("endingOffsetsByTimestamp",),
        {**PLAIN, "endingOffsetsByTimestamp": '{"plain": {"0": 1}}'},
    ),
    InvalidRead(
        "a delay that is none",
        ("maxTriggerDelay", "'soon'"),
        {**PLAIN, "minOffsetsPerTrigger": "2", "maxTriggerDelay": "soon"},
    ),
    InvalidRead(
        "a limit that is no number", ("maxOffsetsPerTrigger", "'many'"), {**PLAIN, "maxOffsetsPerTrigger": "many"}
    ),
    InvalidRead(
        "a stream's start behind the end",
        ("other.topic-0", "9", "5"),
        {"subscribe": "other.topic", "startingOffsets": '{"other.topic": {"0": 9}}'},
    ),
)
