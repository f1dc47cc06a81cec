"""Fixtures of the comparison with Spark's Kafka connector: one broker with all topics, and jobs in both formats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from tests.compatible import pytest_runtest_logreport as pytest_runtest_logreport
from tests.compatible import pytest_sessionfinish as pytest_sessionfinish
from tests.compatible import record_marked as record_marked
from tests.spark.connector.jobs import Jobs
from tests.spark.connector.topics import filled

from ottla.broker.embedded import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="package")
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": "1", "log.retention.ms": "-1"}) as started, filled(started):
        yield started


@pytest.fixture
def ours(spark: SparkSession, broker: Broker) -> Jobs:
    return Jobs(spark, "ottla", broker.bootstrap_servers)


@pytest.fixture
def theirs(spark: SparkSession, broker: Broker, no_connector: str | None) -> Jobs:
    """The same jobs with Spark's connector; skip the test if that is not available."""
    if no_connector:
        pytest.skip(no_connector)
    return Jobs(spark, "kafka", broker.bootstrap_servers)
