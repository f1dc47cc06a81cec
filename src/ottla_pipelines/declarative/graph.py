"""Registration of a project's definitions with Spark, and checks for mistakes that Spark reports late or not at all."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import traceback
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from pyspark.pipelines.cli import PipelineSpec, register_definitions
from pyspark.pipelines.flow import Flow
from pyspark.pipelines.output import Output, Sink, StreamingTable, Table
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph

from ottla.errors import KafkaError
from ottla_pipelines.declarative.eager_plan_checks import EARLY, early_reads
from ottla_pipelines.declarative.events import reason_of
from ottla_pipelines.declarative.session import STATE_STORE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("ottla_pipelines")

FILE_FORMATS: Final = (None, "parquet", "orc", "json", "csv", "text", "avro")
"""Table formats that Spark writes as files. None is the default, Parquet."""


class PipelineError(KafkaError):
    """Raised if definitions are rejected, or if a run fails."""


class Registry(SparkConnectGraphElementRegistry):
    """Sends definitions to Spark, and records them for `check`."""

    def __init__(self, spark: SparkSession, graph: str) -> None:
        super().__init__(spark, graph)
        self._file_tables: set[str] = set()
        self._flows: Counter[str] = Counter()
        self.outputs: set[str] = set()
        """The unqualified names of tables, views and sinks, in lower case."""
        self.tables: set[str] = set()
        """The unqualified names of tables and materialized views, in upper and lower case as in the definitions."""
        self._early_reads: list[tuple[str, str, str]] = []
        """Tuples of flow, operation and table, with the operations and tables of `early_reads`."""

    def register_output(self, output: Output) -> None:
        """Register a table, view or sink."""
        self.outputs.add(last_part(output.name))
        if isinstance(output, Table):
            self.tables.add(unqualified(output.name))
        if isinstance(output, Sink):
            check_sink(output)
        if isinstance(output, StreamingTable) and output.format in FILE_FORMATS:
            self._file_tables.add(last_part(output.name))
        super().register_output(output)

    def register_flow(self, flow: Flow) -> None:
        """Register a flow (the query of a table, view or sink), and record the tables that it reads too early."""
        self._flows[last_part(flow.target)] += 1

        def rows_of_flow() -> DataFrame:
            rows = flow.func()
            plan = cast(Any, rows)._plan.to_proto(self._client).root
            self._early_reads += [(flow.name, kind, table) for kind, table in early_reads(plan)]
            return rows

        super().register_flow(replace(flow, func=rows_of_flow))

    def check(self) -> None:
        """Raise PipelineError for a table that would lose rows. Log a warning for a flow that would not wait for its
        input.

        A table of files may have only one flow, because the file sink's log numbers micro-batches per directory: it
        would consider micro-batch 0 of a second flow as already written, and the run would succeed without its rows.
        """
        for flow, kind, table in self._early_reads:
            if last_part(table) in self.outputs:
                log.warning(
                    "Flow %s does not wait for the update of table %s and may read outdated rows, because the flow "
                    "calls %s",
                    flow,
                    table,
                    EARLY[kind],
                )
        rejected = tables_with_several_flows(self._file_tables, self._flows)
        if rejected:
            raise PipelineError(
                f"table {rejected[0]} has {self._flows[rejected[0]]} flows, and Spark would drop rows of all but one: "
                "use a table for each flow, and a view with the union of the tables"
            )


def check_sink(sink: Sink) -> None:
    """Raise ConfigurationError for invalid options of the formats `ottla` and `ottla.sql`. Spark would only report them
    after all attempts of the flow in the run.
    """
    if sink.format == "ottla":
        from ottla.spark.options.sink_options import sink_options

        sink_options(sink.options)
    if sink.format == "ottla.sql":
        from ottla.spark.sink.sql_sink import sql_options

        sql_options(sink.options)


def tables_with_several_flows(file_tables: set[str], flows: Counter[str]) -> list[str]:
    """Return the tables stored as files that more than one flow writes to."""
    return sorted(name for name in file_tables if flows[name] > 1)


def last_part(name: str) -> str:
    """Return the unqualified name in lower case: `t` for `catalog.schema.T`."""
    return unqualified(name).lower()


def unqualified(name: str) -> str:
    """Return the unqualified name: `T` for `catalog.schema.T`."""
    return name.replace("`", "").rpartition(".")[2]


class Graph(NamedTuple):
    """A dataflow graph that was created in Spark."""

    graph_id: str
    outputs: frozenset[str]
    """The unqualified names of tables, views and sinks, in lower case."""
    tables: frozenset[str]
    """The unqualified names of tables and materialized views, in upper and lower case as in the definitions."""


def define(spark: SparkSession, spec: PipelineSpec, path: Path) -> Graph:
    """Create a dataflow graph in Spark from a project's definitions, and return it. Raises PipelineError if a
    definition is invalid or rejected.
    """
    # Set here as well, because a server of --remote was started without it.
    settings = {**dict([STATE_STORE]), **spec.configuration}
    graph = create_dataflow_graph(spark, spec.catalog, spec.database, settings)
    registry = Registry(spark, graph)
    try:
        # Without this, Spark would print progress to stdout, between the lines of `--json`.
        with contextlib.redirect_stdout(io.StringIO()):
            register_definitions(path, registry, spec, spark, graph)
    except Exception as error:
        # Definitions are user code, so any exception is reported, with its file and line.
        raise PipelineError(f"{_place(error, path.parent)}{reason_of(str(error)) or type(error).__name__}") from error
    registry.check()
    return Graph(graph, frozenset(registry.outputs), frozenset(registry.tables))


def _place(error: BaseException, project: Path) -> str:
    """Return the innermost file and line of the project in the traceback of an error, as a prefix for its message;
    empty if there is none.
    """
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if Path(f.filename).is_relative_to(project)]
    return f"{os.path.relpath(ours[-1].filename, project)}:{ours[-1].lineno}: " if ours else ""
