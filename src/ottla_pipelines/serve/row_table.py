"""The rows of a run as a topic with a table in Iceberg, Delta or Parquet (`ottla demo --table-format`).

The job writes the rows of each micro-batch to the topic in a transaction of its own, once (`refine.batches`). The table
has the committed records of the topic, once each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla import KafkaAdminClient, NewTopic, errors
from ottla_pipelines.catalog import TOPIC_CONFIG
from ottla_pipelines.topic_tables import TopicTables

if TYPE_CHECKING:
    from ottla_pipelines.run import Run

NAMESPACE = "ottla"


def create_topic(bootstrap_servers: str, run: Run) -> None:
    """Create the topic with the configs of its table, if it does not exist."""
    configs = {
        **TOPIC_CONFIG,
        "ottla.table.format": str(run.table_format),
        "ottla.table.schema": f"json:{run.dataset.columns}",
        "ottla.table.location": str(run.tables / run.dataset.name),
        "ottla.table.catalog": _catalog(run),
    }
    with KafkaAdminClient(bootstrap_servers=bootstrap_servers) as admin:
        try:
            admin.create_topics([NewTopic(run.dataset.topic, 1, 1, topic_configs=configs)], wait_for_metadata=True)
        except errors.TopicAlreadyExistsError:
            return


def write_table(bootstrap_servers: str) -> None:
    """Write all committed records of each topic that has a table to its table."""
    with TopicTables(bootstrap_servers) as tables:
        tables.write()


def read_table(run: Run) -> Any:
    """Return the rows of the run's table, sorted by row number, and read as other programs do: with pyiceberg,
    deltalake or pyarrow.
    """
    location = run.tables / run.dataset.name
    if run.table_format == "iceberg":
        from pyiceberg.catalog import load_catalog

        table = load_catalog(NAMESPACE, type="sql", uri=_catalog(run)).load_table(f"{NAMESPACE}.{run.dataset.name}")
        rows = table.scan().to_arrow()
    elif run.table_format == "delta":
        from deltalake import DeltaTable

        rows = DeltaTable(location).to_pyarrow_table()
    else:
        import pyarrow.dataset

        rows = pyarrow.dataset.dataset(location / "data").to_table()
    return rows.sort_by("row")


def _catalog(run: Run) -> str:
    return f"sqlite:///{run.tables / 'catalog.db'}"
