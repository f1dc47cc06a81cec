"""One run of a project: evaluate the definitions, pass the graph to Spark, and report its events.

A run repairs what a killed run has left:

- A full refresh starts new checkpoints and then empties the tables. After a kill in between, checkpoints would
restart although tables are not empty, and Spark's file sink would take micro-batches with low ids for written ones.
So a run first records what it refreshes, and the next run refreshes it again. Once flows are queued all tables are
empty, and the record is cleared, since sinks must not receive everything twice.
- A materialized view is dropped and created again. After a kill in between, its directory is occupied but unknown to
  the catalog, and Spark cannot create the view. The next run removes such directories, unless a checkpoint shows that
  they belong to a streaming table that is not refreshed.
- After a kill at the start of a flow's first micro-batch, Spark rejects its checkpoint (`ottla.spark.checkpoints`).
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
    dry: bool = False
    refresh: Sequence[str] = ()
    """The tables to refresh; if empty, all tables and sinks."""
    full_refresh: Sequence[str] = ()
    """The tables to clear first, and to compute from the beginning."""
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


AT_WORK: Final = "{}: another `ottla pipeline` is at work there"
"""The error of a second concurrent run."""

LEAST_BYTES: Final = 1 << 20
"""The free space below which a disk counts as full: Spark's checkpoints and catalog do not fit."""

Show = Callable[[Event], None]


def run(options: RunOptions, show: Show) -> None:
    """Run to the end, and pass events to `show`. Raises PipelineError and ConfigurationError."""
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
    # Imported here, as it needs the packages that `_spec` has checked.
    from ottla_pipelines.declarative.graph import define

    # Also because a second run would take this one for killed, and its directories for orphans.
    with locked(options.project, AT_WORK.format(options.project)):
        unfinished = Unfinished(options.project)
        request = unfinished.taken_up(options)
        if unfinished.is_there and options.remote is None:
            remove_torn_starts(options.project / STORAGE / "_checkpoints")
        show(said("Spark is being reached" if options.remote else "Spark is being started"))
        with (
            session(options.project, master=options.master, remote=options.remote, overrides=options.config) as spark,
            in_a_line(options.project),
        ):
            if options.remote is None:
                check_catalog(spark, options.project)
            show(said("the definitions are being read"))
            graph = define(spark, spec, options.spec)
            check_names(options, graph)
            if options.dry:
                _finish(spark, graph.graph_id, spec, request, show)
                return
            if unfinished.is_there and options.remote is None:
                remove_orphans(spark, options.project, request, graph.outputs)
            unfinished.note(request)

            def show_and_note(event: Event) -> None:
                if event.state == "QUEUED":
                    unfinished.note_emptied()
                show(event)

            _finish(spark, graph.graph_id, spec, request, show_and_note)
            unfinished.done()


def said(text: str) -> Event:
    """Return an event of Ottla. Before its flows are queued, Spark reports nothing for twenty seconds or more."""
    return Event(dt.datetime.now(dt.UTC), None, None, text)


@contextlib.contextmanager
def in_a_line(project: Path) -> Iterator[None]:
    """Raise an unexpected error of Spark, such as a full disk, as a PipelineError with one line of text."""
    from pyspark.errors import PySparkException

    from ottla_pipelines.declarative.graph import PipelineError

    try:
        yield
    except PySparkException as error:
        full = f"; no space is left in {project}" if shutil.disk_usage(project).free < LEAST_BYTES else ""
        raise PipelineError(f"{reason_of(str(error))}; see {project / LOG}{full}") from error


def check_catalog(spark: SparkSession, project: Path) -> None:
    """Raise ConfigurationError if the catalog was created at another place: it would read and write the tables
    there.

    So would the tables' logs: those of the file sink have each file's whole path.
    """
    original, here = (
        local_path(location or "")
        for location in (spark.catalog.getDatabase("default").locationUri, spark.conf.get("spark.sql.warehouse.dir"))
    )
    if original != here:
        raise ConfigurationError(
            f"{project} was moved or copied from {original}, and its tables belong to that path: move it back or remove"
            f" {STORAGE}/ and tables/ to compute everything from the beginning, including what the sinks receive"
        )


def check_names(options: RunOptions, graph: Graph) -> None:
    """Raise ConfigurationError for names to refresh that are no tables: Spark would skip everything and report
    success.

    Spark compares the names with their case, and never finds sinks.
    """
    from ottla_pipelines.declarative.graph import last_part, spelled

    for option, names in (("--refresh", options.refresh), ("--full-refresh", options.full_refresh)):
        for name in names:
            if spelled(name) in graph.tables:
                continue
            names_of_tables = sorted(graph.tables)
            is_other = last_part(name) in graph.outputs - {table.lower() for table in names_of_tables}
            what = (
                f"{name!r} is no table" if is_other else f"there is no table {name!r}{nearest(name, names_of_tables)}"
            )
            raise ConfigurationError(f"{option}: {what}; {', '.join(names_of_tables) or 'none'} can be refreshed")


def _spec(path: Path) -> PipelineSpec:
    try:
        import yaml  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException
        from pyspark.pipelines.cli import load_pipeline_spec
    except ImportError as error:
        raise ConfigurationError(f"{error}; install it with `pip install 'ottla[pipelines]'`") from error
    try:
        return load_pipeline_spec(path)
    except (PySparkException, yaml.YAMLError, KeyError, TypeError, OSError) as error:
        raise ConfigurationError(f"{path}: {' '.join(str(error).split())}") from error


def _finish(spark: SparkSession, graph: str, spec: PipelineSpec, request: dict[str, Any], show: Show) -> None:
    """Start the run and report its events. Raises PipelineError with the reason of the last failure."""
    from pyspark.errors import PySparkException
    from pyspark.pipelines.spark_connect_pipeline import start_run

    from ottla_pipelines.declarative.graph import PipelineError

    failure = None
    try:
        for event in events_of(start_run(spark, graph, storage=spec.storage, **request)):
            show(event)
            if event.state is None and event.reason:  # a definition that Spark cannot make sense of
                failure = failure or f"{event.headline.rstrip('.')}: {event.reason}"
            if event.state == "FAILED" and event.reason:
                failure = f"flow {event.flow}: {event.reason}" if event.flow else failure or event.reason
    except PySparkException as error:
        raise PipelineError(failure or reason_of(str(error))) from error


class Unfinished:
    """The record of a run in progress and of its refreshes; it remains if the run is killed."""

    def __init__(self, project: Path) -> None:
        self._path = project / STORAGE / "unfinished.json"
        self.is_there = self._path.exists()
        self._refreshes = False

    def taken_up(self, options: RunOptions) -> dict[str, Any]:
        """Return the refreshes to request from Spark: those of `options`, and the full refresh that was interrupted."""
        before = json.loads(self._path.read_text()) if self.is_there else {}
        if before.get("full_refresh_all") or options.full_refresh_all:
            return {"full_refresh": [], "full_refresh_all": True, "refresh": [], "dry": options.dry}
        full = sorted({*options.full_refresh, *before.get("full_refresh", ())})
        # Spark takes either a list to refresh or everything.
        refresh = list(options.refresh) if options.refresh or not before.get("full_refresh") else []
        return {"full_refresh": full, "full_refresh_all": False, "refresh": refresh, "dry": options.dry}

    def note(self, request: dict[str, Any]) -> None:
        """Record the request, before anything is changed."""
        self._path.parent.mkdir(exist_ok=True)
        write_json(self._path, request)
        self._refreshes = bool(request.get("full_refresh_all") or request.get("full_refresh"))

    def note_emptied(self) -> None:
        """Record that the full refresh has cleared its tables: an interrupted run now resumes like any other."""
        if self._refreshes:
            self.note({})

    def done(self) -> None:
        """Delete the record after the run has succeeded."""
        self._path.unlink(missing_ok=True)


def remove_orphans(spark: SparkSession, project: Path, request: dict[str, Any], outputs: frozenset[str]) -> list[Path]:
    """Remove directories of outputs that the catalog does not know and whose rows are not needed, and return them.

    Directories that are not outputs of this project are left alone.
    """
    tables = {table.name for table in spark.catalog.listTables()}
    streams = {path.name for path in (project / STORAGE / "_checkpoints").glob("*/*/*")}
    streams = set() if request["full_refresh_all"] else streams - set(request["full_refresh"])
    orphans = [path for path in _table_directories(project) if path.name in outputs - tables - streams]
    for path in orphans:
        log.warning("Removed %s, which a killed run had left behind", path)
        shutil.rmtree(path)
    return orphans


def _table_directories(project: Path) -> Iterator[Path]:
    tables = project / "tables"
    if tables.is_dir():
        yield from (path for path in tables.iterdir() if path.is_dir() and not path.name.endswith(".db"))
