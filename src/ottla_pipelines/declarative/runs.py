"""One run of a project: evaluate the definitions, start the pipeline in Spark, and report its events.

A run repairs what a killed run has left:

- A full refresh starts new checkpoints and then empties the tables. If it is killed in between, the next run would
  start with new checkpoints over tables with rows, and Spark's file sink would take micro-batches with low ids for ones
  that it has written. So a run first records which tables it refreshes, and the next run refreshes them again. When
  flows are queued, these tables are empty. The record is then cleared, since sinks must not receive everything twice.
- A materialized view is dropped and created again. If the run is killed in between, its directory exists but the
  catalog does not have the table, and Spark cannot create the view. The next run removes such directories, unless a
  checkpoint shows that they belong to a streaming table that is not refreshed.
- After a kill at the start of a flow's first micro-batch, Spark rejects the flow's checkpoint because of a temporary
  file. The next run removes the file (`ottla.spark.checkpoints`).

With `--remote`, only the first of these is repaired.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.config.options import nearest
from ottla.errors import ConfigurationError
from ottla.spark.checkpoints import remove_torn_starts
from ottla_pipelines.declarative.events import Event, events_of, reason_of
from ottla_pipelines.declarative.projects import STORAGE, check_path, check_storage, local_path
from ottla_pipelines.declarative.run_progress import recorded
from ottla_pipelines.declarative.session import DEFAULT_MASTER, LOG, session
from ottla_pipelines.run import locked, write_json

if TYPE_CHECKING:
    from pyspark.pipelines.cli import PipelineSpec
    from pyspark.sql import SparkSession

    from ottla_pipelines.declarative.graph import Graph

log = logging.getLogger("ottla_pipelines")


@dataclass(frozen=True)
class RunOptions:
    """The options of a run."""

    spec: Path
    """The path of the project's specification."""
    dry: bool = False
    """Whether the definitions are only checked."""
    refresh: Sequence[str] = ()
    """The tables to refresh. If this and `full_refresh` are empty: all tables and sinks."""
    full_refresh: Sequence[str] = ()
    """The tables to empty and to compute from the beginning."""
    full_refresh_all: bool = False
    master: str = DEFAULT_MASTER
    remote: str | None = None
    """The URL of a Spark Connect server to use instead of starting one: sc://host:port."""
    config: dict[str, str] = field(default_factory=dict)
    progress_dir: Path | None = None
    """A directory for the progress of the run, which `ottla console --progress-dir` shows."""

    @property
    def project(self) -> Path:
        """The project's directory."""
        return self.spec.parent


ALREADY_RUNNING: Final = "{}: another `ottla pipeline` is running there"
"""The error message if another run is active in the project; {} is the project's directory."""

LEAST_BYTES: Final = 1 << 20
"""Free bytes below which the disk is reported as full, because Spark's checkpoints and catalog need about this much."""

Show = Callable[[Event], None]


def run(options: RunOptions, show: Show) -> None:
    """Run a pipeline until all data is processed, or with `options.dry` only check it, and pass each event to `show`.
    Raises ConfigurationError if the run cannot start, for example because of invalid options, PipelineError if the
    definitions are rejected or the run fails, and KafkaError if a server that was started here ends early.
    """
    with recorded(options.progress_dir, options.project) as progress:

        def show_and_record(event: Event) -> None:
            progress.add(event)
            show(event)

        _run(options, show_and_record)


def _run(options: RunOptions, show: Show) -> None:
    if options.remote is None:
        check_path(options.project)
    spec = _spec(options.spec)
    if options.remote is None:
        check_storage(options.project, spec.storage)
    # Imported here, because it needs packages whose presence `_spec` has checked.
    from ottla_pipelines.declarative.graph import define

    # A second run would also mistake this one for a killed run, and remove its directories.
    with locked(options.project, ALREADY_RUNNING.format(options.project)):
        unfinished = Unfinished(options.project)
        request = unfinished.refreshes_to_request(options)
        if unfinished.exists and options.remote is None:
            remove_torn_starts(options.project / STORAGE / "_checkpoints")
        show(status_event("connecting to Spark" if options.remote else "starting Spark"))
        with (
            session(options.project, master=options.master, remote=options.remote, overrides=options.config) as spark,
            errors_on_one_line(options.project),
        ):
            if options.remote is None:
                check_catalog(spark, options.project)
            show(status_event("reading the definitions"))
            graph = define(spark, spec, options.spec)
            check_names(options, graph)
            if options.dry:
                _finish(spark, graph.graph_id, spec, request, show)
                return
            if unfinished.exists and options.remote is None:
                remove_orphans(spark, options.project, request, graph.outputs)
            unfinished.record(request)

            def show_and_update(event: Event) -> None:
                if event.state == "QUEUED":
                    unfinished.record_emptied()
                show(event)

            _finish(spark, graph.graph_id, spec, request, show_and_update)
            unfinished.done()


def status_event(text: str) -> Event:
    """Return an event of Ottla with this message and the current time. Such events show progress until Spark reports
    its first event.
    """
    return Event(dt.datetime.now(dt.UTC), None, None, text)


@contextlib.contextmanager
def errors_on_one_line(project: Path) -> Iterator[None]:
    """Raise an error of Spark as a PipelineError with one line of text, which also reports a full disk."""
    from pyspark.errors import PySparkException

    from ottla_pipelines.declarative.graph import PipelineError

    try:
        yield
    except PySparkException as error:
        full = f"; the disk of {project} is full" if shutil.disk_usage(project).free < LEAST_BYTES else ""
        raise PipelineError(f"{reason_of(str(error))}; see {project / LOG}{full}") from error


def check_catalog(spark: SparkSession, project: Path) -> None:
    """Raise ConfigurationError if the catalog was created in another directory, because the project was moved or
    copied. Spark would use the tables there.

    The logs of the tables cannot be moved either: they contain absolute paths.
    """
    original, here = (
        local_path(location or "")
        for location in (spark.catalog.getDatabase("default").locationUri, spark.conf.get("spark.sql.warehouse.dir"))
    )
    if original != here:
        raise ConfigurationError(
            f"{project} was moved or copied from {original}, but its tables cannot be moved. Move the project back, or"
            f" remove {STORAGE}/ and tables/ to compute everything from the beginning, including what the sinks receive"
        )


def check_names(options: RunOptions, graph: Graph) -> None:
    """Raise ConfigurationError if a name to refresh is not a table of the project. Spark would skip everything and
    report success.

    As in Spark, names are compared with their case, and sinks cannot be refreshed.
    """
    from ottla_pipelines.declarative.graph import last_part, unqualified

    for option, names in (("--refresh", options.refresh), ("--full-refresh", options.full_refresh)):
        for name in names:
            if unqualified(name) in graph.tables:
                continue
            names_of_tables = sorted(graph.tables)
            is_other = last_part(name) in graph.outputs - {table.lower() for table in names_of_tables}
            missing = f"there is no table {name!r}{nearest(name, names_of_tables)}"
            what = f"{name!r} is not a table" if is_other else missing
            raise ConfigurationError(f"{option}: {what}; {', '.join(names_of_tables) or 'none'} can be refreshed")


def _spec(path: Path) -> PipelineSpec:
    try:
        import yaml
        from pyspark.errors import PySparkException
        from pyspark.pipelines.cli import load_pipeline_spec
    except ImportError as error:
        raise ConfigurationError(_remedy(error)) from error
    try:
        return load_pipeline_spec(path)
    except (PySparkException, yaml.YAMLError, KeyError, TypeError, OSError) as error:
        raise ConfigurationError(f"{path}: {' '.join(str(error).split())}") from error


def _remedy(error: ImportError) -> str:
    if (error.name or "").startswith("pyspark.pipelines"):
        from pyspark import __version__

        return (
            f"declarative pipelines need Spark 4.1 or later, and this is {__version__}; install it with"
            " `pip install 'ottla[pipelines]' 'pyspark>=4.1'`"
        )
    return f"{str(error).rstrip('.')}; install it with `pip install 'ottla[pipelines]'`"


def _finish(spark: SparkSession, graph: str, spec: PipelineSpec, request: dict[str, Any], show: Show) -> None:
    """Start the pipeline and pass its events to `show`. Raises PipelineError with a reason if the run fails."""
    from pyspark.errors import PySparkException
    from pyspark.pipelines.spark_connect_pipeline import start_run

    from ottla_pipelines.declarative.graph import PipelineError

    failure = None
    try:
        for event in events_of(start_run(spark, graph, storage=spec.storage, **request)):
            show(event)
            if event.state is None and event.reason:  # an invalid definition
                failure = failure or f"{event.headline.rstrip('.')}: {event.reason}"
            if event.state == "FAILED" and event.reason:
                failure = f"flow {event.flow}: {event.reason}" if event.flow else failure or event.reason
    except PySparkException as error:
        raise PipelineError(failure or reason_of(str(error))) from error


class Unfinished:
    """The record of a run in progress, with the refreshes that it requests. It remains on disk if the run is killed or
    fails.
    """

    def __init__(self, project: Path) -> None:
        self._path = project / STORAGE / "unfinished.json"
        self.exists = self._path.exists()
        self._refreshes = False

    def refreshes_to_request(self, options: RunOptions) -> dict[str, Any]:
        """Return the refreshes to request from Spark: those of `options`, and the full refresh of an interrupted
        run.
        """
        before = json.loads(self._path.read_text()) if self.exists else {}
        if before.get("full_refresh_all") or options.full_refresh_all:
            return {"full_refresh": [], "full_refresh_all": True, "refresh": [], "dry": options.dry}
        full = sorted({*options.full_refresh, *before.get("full_refresh", ())})
        return {"full_refresh": full, "full_refresh_all": False, "refresh": list(options.refresh), "dry": options.dry}

    def record(self, request: dict[str, Any]) -> None:
        """Write the refreshes to the record."""
        self._path.parent.mkdir(exist_ok=True)
        write_json(self._path, request)
        self._refreshes = bool(request.get("full_refresh_all") or request.get("full_refresh"))

    def record_emptied(self) -> None:
        """Record that the full refresh has emptied its tables. If the run is interrupted from now on, the next run
        continues it without a full refresh.
        """
        if self._refreshes:
            self.record({})

    def done(self) -> None:
        """Delete the record after a successful run."""
        self._path.unlink(missing_ok=True)


def remove_orphans(spark: SparkSession, project: Path, request: dict[str, Any], outputs: frozenset[str]) -> list[Path]:
    """Remove directories of tables that are not in the catalog and whose rows are not needed, and return their paths.

    Directories that do not have the name of an output of this project are not removed.
    """
    tables = {table.name for table in spark.catalog.listTables()}
    streams = {path.name for path in (project / STORAGE / "_checkpoints").glob("*/*/*")}
    streams = set() if request["full_refresh_all"] else streams - set(request["full_refresh"])
    orphans = [path for path in _table_directories(project) if path.name in outputs - tables - streams]
    for path in orphans:
        log.warning(
            "Removing table directory %s, which an unfinished run has left and which is not in the catalog", path
        )
        shutil.rmtree(path)
    return orphans


def _table_directories(project: Path) -> Iterator[Path]:
    tables = project / "tables"
    if tables.is_dir():
        yield from (path for path in tables.iterdir() if path.is_dir() and not path.name.endswith(".db"))
