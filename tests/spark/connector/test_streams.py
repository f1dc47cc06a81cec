"""The same streaming query with format("ottla") and format("kafka"), down to the offsets of its micro-batches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.spark.connector.changing import Changing
from tests.spark.connector.jobs import Jobs
from tests.spark.connector.table import STREAMS, Stream, chosen, noted, often


def named(options: Mapping[str, str], topic: str) -> dict[str, str]:
    return {name: text.format(topic) for name, text in options.items()}


@noted("streaming source", "every option")
@pytest.mark.parametrize("row", chosen(STREAMS), ids=lambda row: row.name)
def test_both_connectors_make_the_same_micro_batches(row: Stream, ours: Jobs, theirs: Jobs, tmp_path: Path) -> None:
    topic = Changing(ours.servers)
    options = named(row.options, topic.name)
    more_first = row.fixed_first
    for rows, change in zip(row.rows, (*row.changes, None), strict=True):
        expected = theirs.stream(options, tmp_path / "theirs")
        actual = ours.stream(options, tmp_path / "ours")
        if more_first:
            del actual.offsets[0]
            more_first = False
        assert sum(map(len, expected.batches)) == rows
        assert actual == expected
        if change is not None:
            getattr(topic, change)()


@noted("streaming source", "lost records are reported")
@pytest.mark.parametrize(("change", "left"), often(("deleted", 10), ("recreated", 0)))
def test_both_connectors_report_lost_records(change: str, left: int, ours: Jobs, theirs: Jobs, tmp_path: Path) -> None:
    topic = Changing(ours.servers)
    options = {"subscribe": topic.name, "startingOffsets": "earliest"}
    for jobs in (ours, theirs):
        jobs.stream(options, tmp_path / jobs.format)
    topic.records()
    getattr(topic, change)()
    with pytest.raises(Exception, match=rf"{topic.name}-[01].*set failOnDataLoss to false"):
        ours.stream(options, tmp_path / "ottla")
    with pytest.raises(Exception, match="failOnDataLoss"):
        theirs.stream(options, tmp_path / "kafka")
    options["failOnDataLoss"] = "false"
    actual, expected = (jobs.stream(options, tmp_path / jobs.format) for jobs in (ours, theirs))
    assert actual == expected
    assert sum(map(len, actual.batches)) == left
    topic.records(3)
    actual, expected = (jobs.stream(options, tmp_path / jobs.format) for jobs in (ours, theirs))
    assert actual == expected
    assert sum(map(len, actual.batches)) == 6
