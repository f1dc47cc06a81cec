"""The same batch read with format("ottla") and format("kafka")."""

from __future__ import annotations

import pytest
from tests.spark.connector.jobs import Jobs
from tests.spark.connector.table import BATCHES, Row, compatibility, selected


@compatibility("batch source", "every option")
@pytest.mark.parametrize("row", selected(BATCHES), ids=lambda row: row.name)
def test_connectors_read_equal_batches(row: Row, ours: Jobs, theirs: Jobs) -> None:
    actual, expected = ours.batch(row.options, row.but), theirs.batch(row.options, row.but)
    assert len(expected.rows) == row.rows
    assert actual == expected
