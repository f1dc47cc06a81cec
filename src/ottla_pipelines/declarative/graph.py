"""The definitions of a project, passed to Spark one by one, and checks for mistakes that Spark accepts."""

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
"""Formats of tables that Spark's file sink writes; None is its default, Parquet."""


class PipelineError(KafkaError):
    """Definitions that Spark rejects, or a run that failed."""


class Registry(SparkConnectGraphElementRegistry):
    """Records the definitions of a project before they are sent to Spark."""

    def __init__(self, spark: SparkSession, graph: str) -> None:
        super().__init__(spark, graph)
        self._file_tables: set[str] = set()
        self._flows: Counter[str] = Counter()
        self.outputs: set[str] = set()
        """The last parts of the names of tables, views and sinks, in lower case."""
        self.tables: set[str] = set()
        """The last parts of the names of tables and materialized views, as they are defined."""
        self._early: list[tuple[str, str, str]] = []
        """Early reads: flow, operation and table."""

    def register_output(self, output: Output) -> None:
        """Register a table, view or sink."""
        self.outputs.add(last_part(output.name))
        if isinstance(output, Table):
            self.tables.add(spelled(output.name))
        if isinstance(output, Sink):
            check_sink(output)
        if isinstance(output, StreamingTable) and output.format in FILE_FORMATS:
            self._file_tables.add(last_part(output.name))
        super().register_output(output)

    def register_flow(self, flow: Flow) -> None:
        """Register a flow, which fills a table or sink, and record the tables that it reads too early."""
        self._flows[last_part(flow.target)] += 1

        def noted() -> DataFrame:
            rows = flow.func()
            plan = cast(Any, rows)._plan.to_proto(self._client).root
            self._early += [(flow.name, kind, table) for kind, table in early_reads(plan)]
            return rows

        super().register_flow(replace(flow, func=noted))

    def check(self) -> None:
        """Raise PipelineError for a table that would lose rows, and warn of a flow that would not wait for its
        input.

        The file sink's log numbers micro-batches per directory: it would take micro-batch 0 of a second flow for
        written already, and the run would be reported as complete.
        """
        for flow, kind, table in self._early:
            if last_part(table) in self.outputs:
                log.warning("Flow %s will not wait for table %s, because of %s", flow, table, EARLY[kind])
        crowded = crowded_tables(self._file_tables, self._flows)
        if crowded:
            raise PipelineError(
                f"table {crowded[0]} has {self._flows[crowded[0]]} flows, of which Spark would keep only some rows: "
                "give each flow a table of its own and unite them in a view"
            )


def check_sink(sink: Sink) -> None:
    """Raise ConfigurationError for wrong options of Ottla's sinks: Spark would only fail in the run, after ten
    attempts.
    """
    if sink.format == "ottla":
        from ottla.spark.options.sink_options import sink_options

        sink_options(sink.options)
    if sink.format == "ottla.sql":
        from ottla.spark.sink.sql_sink import sql_options

        sql_options(sink.options)


def crowded_tables(file_tables: set[str], flows: Counter[str]) -> list[str]:
    """Return the tables of files that more than one flow appends to."""
    return sorted(name for name in file_tables if flows[name] > 1)


def last_part(name: str) -> str:
    """Return `t` for `catalog.schema.T`."""
    return spelled(name).lower()


def spelled(name: str) -> str:
    """Return `T` for `catalog.schema.T`."""
    return name.replace("`", "").rpartition(".")[2]


class Graph(NamedTuple):
    """A dataflow graph that is registered with Spark."""

    graph_id: str
    outputs: frozenset[str]
    """The last parts of the names of tables, views and sinks, in lower case."""
    tables: frozenset[str]
    """The last parts of the names of tables and materialized views, as they are defined."""


def define(spark: SparkSession, spec: PipelineSpec, path: Path) -> Graph:
    """Pass a project's definitions to Spark. Raises PipelineError if Spark cannot use them."""
    # Also for servers that were not started here.
    settings = {**dict([STATE_STORE]), **spec.configuration}
    graph = create_dataflow_graph(spark, spec.catalog, spec.database, settings)
    registry = Registry(spark, graph)
    try:
        # Spark's own progress lines would go to stdout, between the lines of `--json`.
        with contextlib.redirect_stdout(io.StringIO()):
            register_definitions(path, registry, spec, spark, graph)
    except Exception as error:
        # Definitions are user code: any exception is reported with its line.
        raise PipelineError(f"{_place(error, path.parent)}{reason_of(str(error)) or type(error).__name__}") from error
    registry.check()
    return Graph(graph, frozenset(registry.outputs), frozenset(registry.tables))


def _place(error: BaseException, project: Path) -> str:
    """Return the file and line of the project in which an error was raised, as a prefix for its message."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if Path(f.filename).is_relative_to(project)]
    return f"{os.path.relpath(ours[-1].filename, project)}:{ours[-1].lineno}: " if ours else ""
