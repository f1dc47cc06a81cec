"""Options that both connectors reject; our errors name the option, the value and the fix."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.spark.connector.jobs import Jobs
from tests.spark.connector.table import INVALID_BATCHES, INVALID_STREAMS, InvalidRead, selected

from ottla.net.ports import free_port


@pytest.mark.parametrize("row", selected(INVALID_BATCHES), ids=lambda row: row.name)
def test_connectors_reject_invalid_batch_options(row: InvalidRead, ours: Jobs, theirs: Jobs) -> None:
    with pytest.raises(Exception, match="Error: ") as ended:  # Spark wraps the error.
        ours.batch(row.options)
    assert [word for word in row.words if word not in str(ended.value)] == [], str(ended.value)
    with pytest.raises(Exception, match="."):
        print("Spark's connector read", theirs.batch(row.options).rows)


@pytest.mark.parametrize("row", selected(INVALID_STREAMS), ids=lambda row: row.name)
def test_connectors_reject_invalid_stream_options(row: InvalidRead, ours: Jobs, theirs: Jobs, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="Error: ") as ended:  # Spark wraps the error.
        ours.stream(row.options, tmp_path / "ours")
    assert [word for word in row.words if word not in str(ended.value)] == [], str(ended.value)
    with pytest.raises(Exception, match="."):
        print("Spark's connector read", theirs.stream(row.options, tmp_path / "theirs").batches)


PATIENCE = {"kafka.default.api.timeout.ms": "1500", "kafka.request.timeout.ms": "1000", "kafka.max.block.ms": "1500"}
SECONDS = 30
"""Far less than the three attempts of a minute that a running query makes to reach known brokers."""


@pytest.mark.parametrize("job", ["batch", "stream", "write"])
def test_unreachable_brokers_are_reported_in_time(job: str, ours: Jobs, tmp_path: Path) -> None:
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


def test_user_specified_schema_is_rejected(ours: Jobs) -> None:
    reader = ours.spark.read.format("ottla").schema("value string").option("kafka.bootstrap.servers", ours.servers)
    with pytest.raises(Exception, match="the columns are key binary.*cast or parse the column value"):
        reader.option("subscribe", "plain").load().collect()


def test_unreachable_database_is_reported(ours: Jobs) -> None:
    pytest.importorskip("psycopg")
    url = f"postgresql://me@127.0.0.1:{free_port()}/db"
    rows = ours.spark.sql("select 'v' value")
    with pytest.raises(Exception, match=r"url: cannot use postgresql\+psycopg://me@127.0.0.1"):
        rows.write.format("ottla.sql").option("url", url).option("dbtable", "t").mode("append").save()
