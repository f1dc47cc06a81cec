"""The table of writes for both connectors. `{}` in a text is replaced with the topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

TOPIC = {"topic": "{}"}


class Write(NamedTuple):
    """Rows that both connectors write equally, and into the same partitions."""

    name: str
    sql: str
    options: Mapping[str, str] = TOPIC


class InvalidWrite(NamedTuple):
    """Rows that both connectors reject; our error contains `words`."""

    name: str
    words: tuple[str, ...]
    sql: str
    options: Mapping[str, str] = TOPIC


WRITES = (
    Write("texts", "select concat('k', id) key, concat('ü', id) value from range(20)"),
    Write("bytes", "select cast('k' as binary) key, cast(concat('v', id) as binary) value from range(20)"),
    Write("nulls", "select if(id % 2 = 0, null, concat('k', id)) key, if(id % 3 = 0, null, 'v') value from range(20)"),
    Write("no rows", "select 'v' value from range(0)"),
    Write("other columns", "select 'k' key, 'v' value, id, id number, current_timestamp() timestamp from range(3)"),
    Write("the column topic", "select '{}' topic, 'k' key, concat('v', id) value from range(9)", {}),
    Write("the option topic wins", "select 'elsewhere' topic, 'k' key, 'v' value from range(3)", {"topic": " {} "}),
    Write(
        "partitions given and of keys",
        "select cast(if(id % 4 = 3, null, id % 4) as int) partition, concat('k', id) key, concat('v', id) value"
        " from range(40)",
    ),
    Write(
        "headers",
        "select concat('k', id) key, 'v' value, case when id % 3 = 0 then null when id % 3 = 1 then array() else"
        " array(named_struct('key', 'a', 'value', cast('x' as binary)), named_struct('key', 'a', 'value', null)) end"
        " as headers from range(9)",
    ),
    Write(
        "the producer's options",
        "select concat('k', id) key, repeat('v', 1000) value from range(9)",
        {
            **TOPIC,
            "kafka.compression.type": "lz4",
            "kafka.linger.ms": "3",
            "kafka.acks": "all",
            "kafka.enable.idempotence": "true",
        },
    ),
)
V = "select 'v' value from range(3)"
INVALID_WRITES = (
    InvalidWrite("no value", ("column value", "id"), "select id from range(3)"),
    InvalidWrite("a number as value", ("column value", "bigint", "cast"), "select id value from range(3)"),
    InvalidWrite("a number as key", ("column key", "int", "cast"), "select 1 key, 'v' value from range(3)"),
    InvalidWrite("a number as topic", ("column topic", "int"), "select 1 topic, 'v' value from range(3)", {}),
    InvalidWrite("a long partition", ("column partition", "bigint"), "select id partition, 'v' value from range(3)"),
    InvalidWrite("texts as headers", ("column headers",), "select array('a') headers, 'v' value from range(3)"),
    InvalidWrite("no topic", ("topic",), V, {}),
    InvalidWrite(
        "a row without topic", ("topic", "null"), "select cast(null as string) topic, 'v' value from range(3)", {}
    ),
    InvalidWrite("a topic that cannot be", ("a b",), V, {"topic": "a b"}),
    InvalidWrite("a negative partition", ("partition", "-5"), "select -5 partition, 'v' value from range(3)"),
    InvalidWrite("partition -1", ("partition", "-1"), "select -1 partition, 'v' value from range(3)"),
    InvalidWrite(
        "a partition that is not there",
        ("partition 9", "{}"),
        "select 9 partition, 'v' value from range(3)",
        {**TOPIC, "kafka.max.block.ms": "2000"},
    ),
    InvalidWrite(
        "a value that is too large",
        ("max.request.size", "100"),
        "select repeat('v', 1000) value from range(3)",
        {**TOPIC, "kafka.max.request.size": "100"},
    ),
    InvalidWrite("a serializer of keys", ("kafka.key.serializer", "'x'"), V, {**TOPIC, "kafka.key.serializer": "x"}),
    InvalidWrite(
        "a serializer of values", ("kafka.value.serializer", "'x'"), V, {**TOPIC, "kafka.value.serializer": "x"}
    ),
    InvalidWrite("a wrong option", ("linger.ms", "soon"), V, {**TOPIC, "kafka.linger.ms": "soon"}),
)
