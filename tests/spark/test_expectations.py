"""Expectations in Spark: the destinations of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 120


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Rows as read from a topic, in which `a`, `b` and `c` have all combinations of true, false and null."""

    def of_three(digit: int) -> str:
        return f"element_at(array(true, false, cast(null as boolean)), cast(id div {3**digit} % 3 + 1 as int))"

    return spark.range(ROWS).selectExpr(
        "cast(cast(id as string) as binary) key",
        "if(id % 7 = 0, null, unhex('00FF')) value",
        "'visits' topic",
        "cast(id % 2 as int) partition",
        "id offset",
        "timestamp_millis(id) timestamp",
        "if(id % 2 = 0, null, array(named_struct('key', 'mine', 'value', unhex('01')))) headers",
        *(f"{of_three(i)} {name}" for i, name in enumerate("abc")),
    )


def offsets(actual: DataFrame) -> list[int]:
    return sorted(r.offset for r in actual.select("offset").collect())


def test_each_row_has_one_destination(rows: DataFrame) -> None:
    from ottla_pipelines.expectations import Expectations, expect

    checks = Expectations(expect("a", "a", "dead_letter"), expect("b", "b", "drop"), expect("c", "c", "warn"))
    good, dead, dropped = checks.good(rows), checks.dead_rows(rows), checks.dropped(rows)
    assert sorted(offsets(good) + offsets(dead) + offsets(dropped)) == list(range(ROWS))
    assert all(r.a and r.b for r in good.collect())
    assert {r.reason for r in dead.collect()} == {"a"}
    assert all(r.a and not r.b for r in dropped.collect())


def test_dead_letter_has_the_record_bytes_reason_and_position(rows: DataFrame) -> None:
    from ottla_pipelines.expectations import Expectations, expect

    checks = Expectations(expect("first rule", "a", "dead_letter"), expect("second rule", "b", "dead_letter"))
    letters = {int(r.key): r for r in checks.dead_letters(rows).collect()}
    assert set(letters) == {i for i in range(ROWS) if i % 3 or i // 3 % 3}
    letter = letters[7]
    assert (letter.value, {h.key: h.value for h in letter.headers}) == (
        None,
        {
            "mine": b"\x01",
            "__ottla.errors.message": b"first rule, second rule",
            "__ottla.errors.topic": b"visits",
            "__ottla.errors.partition": b"1",
            "__ottla.errors.offset": b"7",
            "__ottla.errors.timestamp": b"7",
        },
    )
    assert letters[2].value == b"\x00\xff"
    assert letters[2].headers[0].key == "__ottla.errors.message", (
        "the record without headers has more headers than those of the error"
    )


def test_rows_are_counted_per_expectation(rows: DataFrame) -> None:
    from ottla_pipelines.expectations import Expectations, expect

    tally = Expectations(expect("a", "a"), expect("b", "b", "drop")).tally(rows).groupBy("name", "partition")
    sums = tally.agg({"seen": "sum", "unmet": "sum", "last_offset": "max"}).collect()
    assert {(r["name"], r["partition"]): (r["sum(seen)"], r["max(last_offset)"]) for r in sums} == {
        (name, p): (ROWS // 2, ROWS - 2 + p) for name in "ab" for p in (0, 1)
    }
    assert sum(r["sum(unmet)"] for r in sums if r["name"] == "a") == ROWS * 2 // 3


def test_row_that_violates_a_fail_expectation_ends_the_query(rows: DataFrame) -> None:
    from ottla_pipelines.expectations import Expectations, expect

    fails = Expectations(expect("below 100", "offset < 100", "fail"))
    assert offsets(fails.good(rows.filter("offset < 100"))) == list(range(100))
    with pytest.raises(Exception, match=r"expectation not met: below 100; at visits [01] 1\d\d"):
        fails.good(rows).collect()
