"""The same streaming query with format("ottla") and format("kafka"), down to the offsets of its micro-batches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.spark.connector.changing import ChangingTopic
from tests.spark.connector.jobs import Jobs
from tests.spark.connector.table import STREAMS, Stream, compatibility, first_or_all, selected


def format_options(options: Mapping[str, str], topic: str) -> dict[str, str]:
    return {name: text.format(topic) for name, text in options.items()}


@compatibility("streaming source", "every option")
@pytest.mark.parametrize("row", selected(STREAMS), ids=lambda row: row.name)
def test_connectors_run_equal_micro_batches(row: Stream, ours: Jobs, theirs: Jobs, tmp_path: Path) -> None:
    topic = ChangingTopic(ours.servers)
    options = format_options(row.options, topic.name)
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


@compatibility("streaming source", "lost records are reported")
@pytest.mark.parametrize(("change", "left"), first_or_all(("deleted", 10), ("recreated", 0)))
def test_connectors_report_lost_records(change: str, left: int, ours: Jobs, theirs: Jobs, tmp_path: Path) -> None:
    topic = ChangingTopic(ours.servers)
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
