from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """One session for all tests: starting one takes seconds."""
    pytest.importorskip("pyspark")
    from ottla.spark.session import local_session

    try:
        session = local_session("ottla-tests", warehouse=tmp_path_factory.mktemp("warehouse"))
    except ConfigurationError as error:
        pytest.skip(str(error))
    yield session
    session.stop()
