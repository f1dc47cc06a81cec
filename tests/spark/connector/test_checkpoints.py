"""Checkpoints are continued by the other connector, and by newer code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.spark.connector.changing import ChangingTopic
from tests.spark.connector.jobs import Jobs
from tests.spark.connector.table import first_or_all

WRITTEN_BEFORE = Path(__file__).parent / "checkpoints"


@pytest.mark.parametrize("first", first_or_all("kafka", "ottla"))
def test_checkpoint_is_continued_by_the_other_connector(first: str, ours: Jobs, theirs: Jobs, tmp_path: Path) -> None:
    first_jobs, other_jobs = (ours, theirs) if first == "ottla" else (theirs, ours)
    topic = ChangingTopic(ours.servers)
    options = {"subscribe": topic.name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
    assert [len(batch) for batch in first_jobs.stream(options, tmp_path).batches] == [20, 20]
    topic.records(5)
    actual = other_jobs.stream(options, tmp_path)
    assert [row[1] for batch in actual.batches for row in batch] == [
        b"%d-%d" % (partition, n) for partition in range(2) for n in range(20, 25)
    ]
    topic.partition()
    assert [row[1] for batch in first_jobs.stream(options, tmp_path).batches for row in batch] == [b"new"]


@pytest.mark.parametrize(
    ("name", "starting", "first"),
    first_or_all(
        ("failed", "earliest", {0: 8, 1: 8}),  # killed in its second micro-batch, 8 to 16
        ("began", '{"kept": {"0": 15, "1": -1}}', {0: 15, 1: 20}),  # killed in its first one, which is empty
        ("whole", "earliest", {0: 20, 1: 20}),  # stopped normally at 20 and 20
    ),
)
def test_checkpoint_of_older_code_is_continued(
    name: str, starting: str, first: dict[int, int], ours: Jobs, tmp_path: Path
) -> None:
    """Written on 2026-11-21 by the code of commit 4db558d, from 20 records in each partition of the topic."""
    checkpoint = tmp_path / name
    shutil.copytree(WRITTEN_BEFORE / name, checkpoint)
    options = {"subscribe": "kept", "startingOffsets": starting, "maxOffsetsPerTrigger": "16"}
    actual = ours.stream(options, checkpoint)
    values = sorted(row[1] for batch in actual.batches for row in batch)
    assert values == sorted(b"%d-%d" % (p, n) for p, begin in first.items() for n in range(begin, 30))
    if name == "failed":
        assert len(actual.batches[0]) == 16, "the retry of the failed micro-batch has other rows"
