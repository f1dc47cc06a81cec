"""The command `ottla pipeline`: create, check and run declarative pipelines.

    ottla pipeline init visits --template page-visits
    cd visits && ottla pipeline run --demo
    ottla pipeline run --bootstrap-server localhost:9092

A run processes the data that has arrived since the last run, and ends. It may be killed and started again.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.framework.command import Action, Command, CommandFailedError
from ottla.cli.framework.options import Flag, Option, Repeatable
from ottla.errors import ConfigurationError, KafkaError

if TYPE_CHECKING:
    from ottla_pipelines.declarative.events import Event
    from ottla_pipelines.topic_tables import WrittenTable


REACH_MS = 10_000
"""Timeout in milliseconds for reaching the brokers before a run starts."""
REFRESHES = ("refresh", "full_refresh", "full_refresh_all")
"""The options of `run` that select the tables to refresh."""
USES_TOPICS = re.compile(r"ottla_pipelines\.declarative(\.topics\b|\s+import\s+(\([^)]*|[^\n]*)\btopics\b)")
"""An import of `declarative.topics`."""


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def run(args: argparse.Namespace) -> int:
    """Run or check a pipeline, and return the exit code. Raises CommandFailedError."""
    problem = contradiction(args)
    if problem:
        raise CommandFailedError(f"ottla pipeline: {problem}", exit_code=2)
    try:
        return _run(args)
    except ModuleNotFoundError as error:
        remedy = "run `pip install 'ottla[pipelines]'`"
        raise CommandFailedError(f"ottla pipeline: {error.name} is not installed; {remedy}") from error
    except (KafkaError, OSError) as error:
        raise CommandFailedError(f"ottla pipeline: {error}") from error


def init(args: argparse.Namespace) -> int:
    """Create a project, and print its files and the command that runs it. Raises CommandFailedError."""
    from ottla_pipelines.declarative import projects

    try:
        written = projects.create(args.name, projects.template(args.template))
    except (KafkaError, OSError) as error:
        raise CommandFailedError(f"ottla pipeline: {error}") from error
    for path in written:
        print(path)
    if args.template == "empty":
        print("\nottla topics --create --topic events    # the topic that the project copies, at a broker that runs")
        print(f"cd {args.name} && ottla pipeline run")
    else:
        print(f"\ncd {args.name} && ottla pipeline run --demo")
    return 0


def contradiction(args: argparse.Namespace) -> str | None:
    """Return an error message if options contradict each other, otherwise None."""
    if args.action == "run" and args.full_refresh_all and (args.full_refresh or args.refresh):
        return "--full-refresh-all refreshes all tables, so it cannot be combined with --full-refresh or --refresh"
    if args.action == "run" and args.demo and args.bootstrap_server:
        return "--demo starts a broker, so it cannot be combined with --bootstrap-server"
    if args.master and args.remote:
        return "--remote uses the master of that server, so it cannot be combined with --master"
    return None


def _run(args: argparse.Namespace) -> int:
    from ottla_pipelines.declarative import projects, summary, topics
    from ottla_pipelines.declarative.runs import RunOptions
    from ottla_pipelines.declarative.runs import run as run_pipeline
    from ottla_pipelines.declarative.session import DEFAULT_MASTER

    spec = projects.find_spec(args.spec)
    dry = args.action == "dry-run"
    options = RunOptions(
        spec,
        dry=dry,
        master=args.master or DEFAULT_MASTER,
        remote=args.remote,
        config=dict(_setting(text) for text in args.conf),
        progress_dir=None if dry else args.progress_dir,
        **({} if dry else {name: getattr(args, name) for name in REFRESHES}),
    )
    if args.database:
        os.environ[topics.DATABASE] = args.database
    with _brokers(args, spec.parent) as address:
        if address:
            os.environ[topics.BOOTSTRAP_SERVERS] = address
        began = time.monotonic()
        run_pipeline(options, _show_json if args.json else _shown_since(began))
        tables = [] if dry or not args.demo or address is None else _write_tables(address)
    if not args.json:
        print(f"{'checked' if dry else 'done'} in {time.monotonic() - began:.0f} s")
        if not dry and args.demo:
            print("\n".join(summary.lines(spec.parent, tables)))
    return 0


def _write_tables(address: str) -> list[WrittenTable]:
    """Write the committed records of all topics that have a table to their tables, while the broker of --demo is
    running.
    """
    from ottla_pipelines.topic_tables import TopicTables

    with TopicTables(address) as tables:
        return tables.write()


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigurationError(f"--conf {text!r}: expected KEY=VALUE")
    return name.strip(), value


@contextlib.contextmanager
def _brokers(args: argparse.Namespace, project: Path) -> Iterator[str | None]:
    """Yield the address of the brokers, or None for the default. With --demo, run a broker and fill it first."""
    from ottla_pipelines.declarative import topics
    from ottla_pipelines.declarative.runs import ALREADY_RUNNING
    from ottla_pipelines.run import locked

    if args.action == "dry-run" or not args.demo:
        # A Spark Connect server on another machine may reach brokers that this machine cannot reach.
        if args.action == "run" and (args.bootstrap_server or (args.remote is None and reads_topics(project))):
            check_reachable(args.bootstrap_server or topics.bootstrap_servers())
        yield args.bootstrap_server
        return
    from ottla.broker.embedded import Broker

    fill = _demo_input(project)
    # Checked here already, because the broker's own error would name its data directory.
    with locked(project, ALREADY_RUNNING.format(project)):
        pass
    with Broker(data_dir=project / "broker") as broker:
        sent = fill(broker.bootstrap_servers)
        if not args.json:
            records = f"{sent:,} records sent" if sent else "with the records of earlier runs"
            print(f"broker on {broker.bootstrap_servers}, {records}")
        yield broker.bootstrap_servers


def reads_topics(project: Path) -> bool:
    """Return whether a Python file in `transformations` mentions `ottla_pipelines.declarative.topics`, which uses the
    address of `--bootstrap-server`.

    Other definitions may connect to other brokers, or to none.
    """
    definitions = project.glob("transformations/**/*.py")
    return any(USES_TOPICS.search(path.read_text("utf-8", "replace")) for path in definitions)


def check_reachable(bootstrap_servers: str) -> None:
    """Raise ConfigurationError if no broker responds, before Spark starts. Errors that are not retriable are raised
    unchanged.
    """
    from ottla import KafkaAdminClient

    try:
        with KafkaAdminClient(
            bootstrap_servers=bootstrap_servers, request_timeout_ms=REACH_MS, default_api_timeout_ms=REACH_MS
        ) as admin:
            admin.describe_cluster()
    except KafkaError as error:
        if not error.retriable:
            raise
        raise ConfigurationError(
            f"--bootstrap-server {bootstrap_servers}: no broker responds ({error}). Start one there, or set"
            " another address"
        ) from error


def _demo_input(project: Path) -> Callable[[str], int]:
    path = project / "demo_input.py"
    if not path.is_file():
        raise ConfigurationError(f"--demo: {path} does not exist; it must define the function fill(bootstrap_servers)")
    spec = importlib.util.spec_from_file_location("demo_input", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    fill: Callable[[str], int] = module.fill
    return fill


def _shown_since(began: float) -> Callable[[Event], None]:
    """Return a function that prints an event as a line with the seconds since `began`."""

    def show(event: Event) -> None:
        what = f"{event.flow or 'run'}: {event.state.lower()}" if event.state else event.headline
        reason = f" ({event.reason})" if event.reason else ""
        print(f"{time.monotonic() - began:6.1f} s  {what}{reason}", flush=True)

    return show


def _show_json(event: Event) -> None:
    from ottla_pipelines.declarative.events import as_json

    print(json.dumps(as_json(event)), flush=True)


_COMMON = (
    Option(
        "--spec PATH",
        "directory of the project, or its spark-pipeline.yml (default: found in the current directory or its parents)",
        Path,
        default=Path(),
    ),
    Option(
        "--bootstrap-server HOST:PORT[,…]",
        "addresses of brokers (default: OTTLA_BOOTSTRAP_SERVERS in the environment, or 127.0.0.1:9092)",
    ),
    Option(
        "--database URL",
        "database of SQL sinks (default: OTTLA_PIPELINE_DATABASE in the environment, or results.db in the project)",
    ),
    Option("--master URL", "Spark master (default: local[*,4]); not with --remote"),
    Option("--remote sc://HOST:PORT", "Spark Connect server to use instead of starting one"),
    Repeatable("--conf KEY=VALUE", "Spark config, such as spark.sql.shuffle.partitions=4"),
    Flag("--json", "print events as JSON, an object per line"),
)

COMMAND = Command(
    subcommands=True,
    actions=(
        Action(
            "init",
            "create a project that can be run without changes",
            init,
            options=(
                Option("name NAME", "name of the project and of its directory", Path),
                Option(
                    "--template page-visits|empty",
                    "template of the project. page-visits: analyzes a web server's log, with sample data for `run "
                    "--demo`; empty: copies a topic to a table",
                    default="empty",
                ),
            ),
        ),
        Action(
            "run",
            "process the data that has arrived since the last run",
            run,
            options=(
                *_COMMON,
                Flag("--demo", "start a broker and fill it with the project's sample data"),
                Option(
                    "--refresh A,B",
                    "update only these tables and those of --full-refresh, and write to no sink. If the last run ended "
                    "before a full refresh had emptied its tables, that refresh is repeated, too; one of all tables "
                    "replaces this selection",
                    _names,
                    action="extend",
                    default=[],
                ),
                Option(
                    "--full-refresh A,B",
                    "empty these tables and compute them from the beginning",
                    _names,
                    action="extend",
                    default=[],
                ),
                Flag("--full-refresh-all", "empty all tables and compute them from the beginning"),
                Option(
                    "--progress-dir DIR",
                    "directory for the run's progress, which `ottla console --progress-dir DIR` shows",
                    Path,
                ),
            ),
        ),
        Action("dry-run", "check the definitions without running them", run, options=_COMMON),
    ),
)
