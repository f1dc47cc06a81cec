"""Declarative pipelines: make a project, check it, run it.

    ottla pipeline init visits --template page-visits
    cd visits && ottla pipeline run --demo
    ottla pipeline run --bootstrap-server localhost:9092

A run takes what has come since the last one and ends. It may be killed and started again.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.errors import ConfigurationError, KafkaError

if TYPE_CHECKING:
    from ottla.pipelines.declarative.events import Event


REACH_MS = 10_000
"""How long brokers may take to answer before a run begins."""
REFRESHES = ("refresh", "full_refresh", "full_refresh_all")
"""Options of `run` alone."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla pipeline`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="init|run|dry-run")
    init = actions.add_parser("init", help="write a project that runs as it is")
    init.add_argument("name", metavar="NAME", type=Path, help="the project and its directory")
    init.add_argument("--template", default="empty", metavar="page-visits|empty", help="default: %(default)s")
    run_ = actions.add_parser("run", help="compute what has come since the last run")
    _add_common(run_)
    run_.add_argument("--demo", action="store_true", help="with a broker and input of the project's own")
    for name, text in (
        ("--refresh", "only these tables; sinks are left out"),
        ("--full-refresh", "empty these tables before, and compute them from the beginning"),
    ):
        run_.add_argument(name, type=_names, action="extend", default=[], metavar="A,B", help=text)
    run_.add_argument("--full-refresh-all", action="store_true", help="the same for all")
    _add_common(actions.add_parser("dry-run", help="check the definitions and run nothing"))


def _add_common(parser: argparse.ArgumentParser) -> None:
    where = "the project's directory or its spark-pipeline.yml; default: here or above"
    parser.add_argument("--spec", type=Path, default=Path(), metavar="PATH", help=where)
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT[,…]", help="brokers; default: 127.0.0.1:9092")
    parser.add_argument("--database", metavar="URL", help="where SQL sinks write; default: results.db in the project")
    parser.add_argument("--master", metavar="URL", help="Spark's master; default: local[*,4]")
    parser.add_argument("--remote", metavar="sc://HOST:PORT", help="a Spark Connect server instead of one of our own")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="a Spark setting; repeatable")
    parser.add_argument("--json", action="store_true", help="tell what happens as JSON, an object per line")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def run(args: argparse.Namespace) -> int:
    """Do it; 1 with one line where that fails, 2 where options contradict each other."""
    if args.action == "init":
        return init(args)
    problem = contradiction(args)
    if problem:
        print(f"ottla pipeline: {problem}", file=sys.stderr)
        return 2
    try:
        return _run(args)
    except ModuleNotFoundError as error:
        extra = "install it with `pip install 'ottla[pipelines]'`"
        print(f"ottla pipeline: {error.name} is missing; {extra}", file=sys.stderr)
    except (KafkaError, OSError) as error:
        print(f"ottla pipeline: {error}", file=sys.stderr)
    return 1


def init(args: argparse.Namespace) -> int:
    """`init`."""
    from ottla.pipelines.declarative import projects

    try:
        written = projects.create(args.name, projects.template(args.template))
    except (KafkaError, OSError) as error:
        print(f"ottla pipeline: {error}", file=sys.stderr)
        return 1
    for path in written:
        print(path)
    demo = " --demo" if args.template != "empty" else ""
    print(f"\ncd {args.name} && ottla pipeline run{demo}")
    return 0


def contradiction(args: argparse.Namespace) -> str | None:
    """What is wrong with the options taken together."""
    if args.action == "run" and args.full_refresh_all and (args.full_refresh or args.refresh):
        return "--full-refresh-all takes all tables; leave --full-refresh and --refresh out"
    if args.action == "run" and args.demo and args.bootstrap_server:
        return "--demo brings its own broker; leave --bootstrap-server out"
    if args.master and args.remote:
        return "--remote has its own master; leave --master out"
    return None


def _run(args: argparse.Namespace) -> int:
    from ottla.pipelines.declarative import projects, topics
    from ottla.pipelines.declarative.runs import RunOptions
    from ottla.pipelines.declarative.runs import run as run_pipeline
    from ottla.pipelines.declarative.session import DEFAULT_MASTER

    spec = projects.find_spec(args.spec)
    dry = args.action == "dry-run"
    options = RunOptions(
        spec,
        dry=dry,
        master=args.master or DEFAULT_MASTER,
        remote=args.remote,
        config=dict(_setting(text) for text in args.conf),
        **({} if dry else {name: getattr(args, name) for name in REFRESHES}),
    )
    if args.database:
        os.environ[topics.DATABASE] = args.database
    with _brokers(args, spec.parent) as address:
        if address:
            os.environ[topics.BOOTSTRAP_SERVERS] = address
        began = time.monotonic()
        run_pipeline(options, _show_json if args.json else _shown_since(began))
    if not args.json:
        print(f"{'checked' if dry else 'done'} in {time.monotonic() - began:.0f} s")
    return 0


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigurationError(f"--conf {text!r}: KEY=VALUE is wanted")
    return name.strip(), value


@contextlib.contextmanager
def _brokers(args: argparse.Namespace, project: Path) -> Iterator[str | None]:
    """The address of the brokers; with --demo, of one that lives as long as the run."""
    from ottla.pipelines.declarative import topics
    from ottla.pipelines.declarative.runs import AT_WORK
    from ottla.pipelines.run import locked

    if args.action == "dry-run" or not args.demo:
        # A server elsewhere may see brokers that we do not.
        if args.action == "run" and (args.bootstrap_server or (args.remote is None and reads_topics(project))):
            reach(args.bootstrap_server or topics.bootstrap_servers())
        yield args.bootstrap_server
        return
    from ottla.broker.embedded import Broker

    fill = _demo_input(project)
    # Told here, too: the broker's own words would be about its directory.
    with locked(project, AT_WORK.format(project)):
        pass
    with Broker(data_dir=project / "broker") as broker:
        sent = fill(broker.bootstrap_servers)
        if not args.json:
            print(f"broker on {broker.bootstrap_servers}, {f'{sent:,} records sent' if sent else 'with its records'}")
        yield broker.bootstrap_servers


def reads_topics(project: Path) -> bool:
    """Whether definitions ask for the address: others may name brokers of their own, or none."""
    asks = "ottla.pipelines.declarative.topics"
    return any(asks in path.read_text("utf-8", "replace") for path in project.glob("transformations/**/*.py"))


def reach(bootstrap_servers: str) -> None:
    """Ask the brokers for anything: who is not there is told now, not after Spark's start and five attempts."""
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
            f"--bootstrap-server {bootstrap_servers}: no broker answers ({error}): start one there, or name another"
        ) from error


def _demo_input(project: Path) -> Callable[[str], int]:
    path = project / "demo_input.py"
    if not path.is_file():
        raise ConfigurationError(f"--demo: {path} is missing; it is to have a function fill(bootstrap_servers)")
    spec = importlib.util.spec_from_file_location("demo_input", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    fill: Callable[[str], int] = module.fill
    return fill


def _shown_since(began: float) -> Callable[[Event], None]:
    """A line per event."""

    def show(event: Event) -> None:
        what = f"{event.flow or 'run'}: {event.state.lower()}" if event.state else event.headline
        reason = f" ({event.reason})" if event.reason else ""
        print(f"{time.monotonic() - began:6.1f} s  {what}{reason}", flush=True)

    return show


def _show_json(event: Event) -> None:
    from ottla.pipelines.declarative.events import as_json

    print(json.dumps(as_json(event)), flush=True)
