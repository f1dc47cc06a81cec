import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scripts import spark_jars

from ottla.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session", autouse=True)
def _first_compiler_only() -> Iterator[None]:
    """Disable optimization, which does not pay off for a JVM of a minute or two. Longer runs set the variable."""
    from ottla.spark.session import FIRST_COMPILER_ONLY

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", os.environ.get("JAVA_TOOL_OPTIONS", FIRST_COMPILER_ONLY))
        yield


@pytest.fixture(scope="session")
def no_connector() -> str | None:
    """Return why the session does not have format("kafka"), or None."""
    return spark_jars.missing()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, no_connector: str | None) -> Iterator["SparkSession"]:
    """One session for all tests, since starting takes seconds; with Spark's Kafka connector if it is available."""
    pytest.importorskip("pyspark")
    from ottla.spark.session import local_session

    config = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC"}  # tests have little garbage, and two cores
    config |= {} if no_connector else {"spark.jars": spark_jars.paths()}
    try:
        session = local_session("ottla-tests", warehouse=tmp_path_factory.mktemp("warehouse"), config=config)
    except ConfigurationError as error:
        pytest.skip(str(error))
    yield session
    session.stop()
