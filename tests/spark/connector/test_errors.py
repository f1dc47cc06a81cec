"""What both connectors refuse; our errors say which option, which value and what to do."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.spark.connector.jobs import Jobs
from tests.spark.connector.table import WRONG_BATCHES, WRONG_STREAMS, Wrong, chosen

from ottla.net.ports import free_port


@pytest.mark.parametrize("row", chosen(WRONG_BATCHES), ids=lambda row: row.name)
def test_both_connectors_refuse_a_batch(row: Wrong, ours: Jobs, theirs: Jobs) -> None:
    with pytest.raises(Exception, match="Error: ") as ended:  # Spark's own wrapping.
        ours.batch(row.options)
    assert [word for word in row.words if word not in str(ended.value)] == [], str(ended.value)
    with pytest.raises(Exception, match="."):
        print("theirs found", theirs.batch(row.options).rows)


@pytest.mark.parametrize("row", chosen(WRONG_STREAMS), ids=lambda row: row.name)
def test_both_connectors_refuse_a_stream(row: Wrong, ours: Jobs, theirs: Jobs, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="Error: ") as ended:  # Spark's own wrapping.
        ours.stream(row.options, tmp_path / "ours")
    assert [word for word in row.words if word not in str(ended.value)] == [], str(ended.value)
    with pytest.raises(Exception, match="."):
        print("theirs found", theirs.stream(row.options, tmp_path / "theirs").batches)


PATIENCE = {"kafka.default.api.timeout.ms": "1500", "kafka.request.timeout.ms": "1000", "kafka.max.block.ms": "1500"}
SECONDS = 30
"""Far less than the three tries of a minute that a running query gives to brokers that it knows."""


@pytest.mark.parametrize("job", ["batch", "stream", "write"])
def test_brokers_that_do_not_answer_are_named_in_time(job: str, ours: Jobs, tmp_path: Path) -> None:
    unreachable = replace(ours, servers=f"127.0.0.1:{free_port()}")
    began = time.monotonic()
    with pytest.raises(Exception, match=rf"kafka.bootstrap.servers {unreachable.servers}.*the time limit is"):
        if job == "batch":
            unreachable.batch({"subscribe": "plain", **PATIENCE})
        elif job == "stream":
            unreachable.stream({"subscribe": "plain", **PATIENCE}, tmp_path)
        else:
            unreachable.write(ours.spark.sql("select 'v' value"), {"topic": "plain", **PATIENCE})
    assert time.monotonic() - began < SECONDS


def test_a_schema_of_ones_own_is_refused(ours: Jobs) -> None:
    reader = ours.spark.read.format("ottla").schema("value string").option("kafka.bootstrap.servers", ours.servers)
    with pytest.raises(Exception, match="the columns are key binary.*cast or parse the column value"):
        reader.option("subscribe", "plain").load().collect()


def test_a_database_that_does_not_answer_is_named(ours: Jobs) -> None:
    pytest.importorskip("psycopg")
    url = f"postgresql://me@127.0.0.1:{free_port()}/db"
    rows = ours.spark.sql("select 'v' value")
    with pytest.raises(Exception, match=r"url: cannot use postgresql\+psycopg://me@127.0.0.1"):
        rows.write.format("ottla.sql").option("url", url).option("dbtable", "t").mode("append").save()
