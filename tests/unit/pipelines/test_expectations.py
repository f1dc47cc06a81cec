"""Expectations of a stream: definition, and counts of unmet rows."""

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from ottla.errors import ConfigurationError
from ottla_pipelines.expectations import _UNMET, TALLY, Expectations, _Counter, expect

RULES = (expect("parses", "value is not null", "dead_letter"), expect("is fresh", "age < 3"))


def batch(*rows: tuple[str, int, int, list[bool]]) -> pa.RecordBatch:
    topics, partitions, offsets, unmet = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict(
        {
            "topic": list(topics),
            "partition": pa.array(partitions, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            _UNMET: pa.array(unmet, pa.list_(pa.bool_())),
        }
    )


def counted(*batches: pa.RecordBatch) -> list[tuple[object, ...]]:
    (tally,) = _Counter(RULES)(iter(batches))
    assert tally.schema.names == TALLY.fieldNames()
    return [tuple(row.values()) for row in tally.to_pylist()]


def test_rows_are_counted_per_expectation_and_partition() -> None:
    one = batch(("a", 0, 5, [True, False]), ("a", 0, 6, [False, False]), ("a", 1, 0, [False, True]))
    two = batch(("a", 0, 7, [True, True]))
    assert counted(one, two) == [
        ("parses", "dead_letter", "a", 0, 5, 7, 3, 2),
        ("is fresh", "warn", "a", 0, 5, 7, 3, 1),
        ("parses", "dead_letter", "a", 1, 0, 0, 1, 0),
        ("is fresh", "warn", "a", 1, 0, 0, 1, 1),
    ]


def test_task_without_rows_has_no_counts() -> None:
    assert counted() == []
    assert counted(batch(("a", 0, 1, [True, True])).slice(0, 0)) == []


def test_unknown_action_is_rejected_with_a_suggestion() -> None:
    with pytest.raises(ConfigurationError, match=r"expectation 'x': there is no action 'dead_leter'.*dead_letter"):
        expect("x", "true", "dead_leter")


@pytest.mark.parametrize(("name", "condition"), [("", "true"), ("x", " ")])
def test_empty_name_or_condition_is_rejected(name: str, condition: str) -> None:
    with pytest.raises(ConfigurationError, match="the name and the condition must not be empty"):
        expect(name, condition)


def test_duplicate_expectation_name_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="'x': the name is used twice"):
        Expectations(expect("x", "true"), expect("x", "false"))
