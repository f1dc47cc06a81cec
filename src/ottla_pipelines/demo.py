"""The demo on one machine: start the broker, the replay and Spark, then print the report and the account.

The account compares the results with the input. Broker, replay and Spark are separate processes. Whichever process is
killed, including this one, the run can be resumed and still processes every row exactly once: its state is in the
topics, in Spark's checkpoint and in the database.
"""

from __future__ import annotations

import argparse
import json
import shlex
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ottla.errors import ConfigurationError, KafkaError
from ottla_pipelines.ingest import files
from ottla_pipelines.processes import Child, ProcessEndedError, start_broker, start_module
from ottla_pipelines.run import Run, write_json
from ottla_pipelines.topic_tables import check_packages

_POLL_S = 0.1
_PLAIN_INTERVAL_S = 5.0
Rates = list[tuple[str, str]]


def run_demo(args: argparse.Namespace) -> int:
    """Run or resume the demo, or only print the report if the run is complete. Return the exit code, which is 0 if the
    results are exact. A signal raises KeyboardInterrupt, after the command that resumes the run is printed.
    """
    console = Console(highlight=False)
    try:
        run = prepare(args, console)
        with run.locked():
            rates = finished_rates(run)
            if rates is None:
                rates = work(run, args, console)
                _save_finished(run, rates)
            exact = report(run, rates, console)
    except KeyboardInterrupt:
        console.print(f"\nInterrupted. {resume_hint(args.data)}", markup=False, soft_wrap=True)
        raise
    except ProcessEndedError as error:
        console.print(f"\n{error}\n\n{resume_hint(args.data)}", markup=False, soft_wrap=True)
        return 1
    except (KafkaError, OSError) as error:
        console.print(f"ottla demo: {error}", markup=False, soft_wrap=True)
        return 1
    if exact and not args.keep:
        run.clear_working_files()
    return 0 if exact else 1


def resume_hint(data: Path) -> str:
    """Return a sentence with the command that resumes the run."""
    arguments = "--resume" if str(data) == "demo-data" else f"--resume --data {shlex.quote(str(data))}"
    return f"`ottla demo {arguments}` (or `make demo ARGS={shlex.quote(arguments)}`) resumes the run."


def prepare(args: argparse.Namespace, console: Console) -> Run:
    """With --resume, return the run to resume. Otherwise remove the files and the tables of an earlier run, and return
    a new one.
    """
    from ottla_pipelines.refine.store import Store

    source = args.input.resolve() if args.input else None
    run = Run(args.data.resolve(), args.limit, source, args.by, args.database, args.table_format)
    if args.resume:
        return Run.resumed(run)
    check_input(args.input, args.by)
    if args.table_format:
        check_packages()
    if args.database:
        # Checked before anything is removed, so that a wrong URL does not destroy an earlier run.
        Store.open(args.database).close()
    if run.clear():
        console.print(f"Removed the files of an earlier run from {args.data}.", soft_wrap=True)
    run.save()
    with Store.open(run.database_url) as store:
        store.drop()
        store.create()
    return run


def check_input(source: Path | None, by: str | None) -> None:
    """Raise ConfigurationError if the input cannot be read as events, or if --by is set without --input."""
    if source is None:
        if by is not None:
            raise ConfigurationError("--by: requires --input, because it is a field of that file")
        return
    if not source.is_file():
        raise ConfigurationError(f"--input {source}: no such file")
    files.layout(source, by)


def finished_rates(run: Run) -> Rates | None:
    """Return the measured rates of a run that is complete, or None if it is not."""
    try:
        return [(str(a), str(b)) for a, b in json.loads(_finished(run).read_text())]
    except FileNotFoundError:
        return None


def _finished(run: Run) -> Path:
    return run.directory / "finished.json"


def _save_finished(run: Run, rates: Rates) -> None:
    write_json(_finished(run), rates)


def work(run: Run, args: argparse.Namespace, console: Console) -> Rates:
    """Start or continue the run until everything is processed, and return the measured rates. Raises ProcessEndedError
    if a process ends too early.
    """
    from ottla_pipelines.ingest.replay import create_topics
    from ottla_pipelines.serve.row_table import create_topic, write_table

    started = time.monotonic()
    children: list[Child] = []
    try:
        broker, address = start_broker(run.broker_data, run.logs)
        children.append(broker)
        took = time.monotonic() - started
        console.print(f"Broker on {address} after {took:.1f} s, data in {run.broker_data}", soft_wrap=True)
        create_topics(address, run.topics)
        if run.table_format:
            create_topic(address, run)
        common = ["--run", str(run.directory), "--bootstrap-servers", address]
        spark = start_module("spark", "ottla_pipelines.refine.job", common, run.logs)
        children.append(spark)
        replay = None
        if run.end_offsets() is None:
            replay = start_module("replay", "ottla_pipelines.ingest.replay", common + _pace(args), run.logs)
            children.append(replay)
        console.print(f"Processes: broker {broker.process.pid}, spark {spark.process.pid}, ", end="")
        console.print(f"replay {replay.process.pid}" if replay else "the replay is already complete")
        spark_seconds = watch(run, console, broker, spark, replay)
        if run.table_format:
            write_table(address)
        size = sum(file.stat().st_size for file in run.broker_data.rglob("*.log"))
    finally:
        for child in reversed(children):
            child.stop()
    topics = ("topics", record_counts(run))
    return [topics, *_rates(spark, replay, spark_seconds, time.monotonic() - started, size)]


def record_counts(run: Run) -> str:
    """Return the number of records in each topic, such as `500 records in flights, 46 in weather`."""
    counts = dict.fromkeys((topic.name for topic in run.topics), 0)
    for tp, end in (run.end_offsets() or {}).items():
        counts[tp.topic] += end
    return ", ".join(f"{n:,}{'' if i else ' records'} in {topic}" for i, (topic, n) in enumerate(counts.items()))


def _pace(args: argparse.Namespace) -> list[str]:
    if args.rate:
        return ["--rate", str(args.rate)]
    return ["--seconds", str(args.seconds)] if args.seconds else []


def watch(run: Run, console: Console, broker: Child, spark: Child, replay: Child | None) -> float:
    """Show progress until Spark has processed everything. Return the seconds from Spark's start to its end; 0 if the
    start was not seen.

    Raises ProcessEndedError if a process ends too early.
    """
    columns = (
        TextColumn("{task.description:<7}"),
        BarColumn(None),
        TextColumn("{task.fields[count]:>19}"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        view = _View(run, progress, console, spark, replay)
        ready: float | None = None
        while spark.is_running:
            if ready is None and "spark" in spark.facts:
                ready = time.monotonic()
            view.update()
            if not broker.is_running:
                raise ProcessEndedError(f"the broker ended too early; {broker.log} ends with:\n{broker.log_tail()}")
            if replay:
                replay.check()
            time.sleep(_POLL_S)
        spark.finish()
        spark.check()
        view.update()
    return time.monotonic() - ready if ready else 0.0


class _View:
    """Shows the progress of the replay and of Spark: with bars on a terminal, otherwise a line every five seconds."""

    def __init__(self, run: Run, progress: Progress, console: Console, spark: Child, replay: Child | None) -> None:
        self._events = f"events ({', '.join(topic.name for topic in run.topics)})"
        self._progress = progress
        self._console = console
        self._spark = spark
        self._replay = replay
        self._replayed: TaskID | None = progress.add_task("replay", total=None, count="", rate="") if replay else None
        self._read = progress.add_task("spark", total=None, count="", rate="starting")
        self._next_line = time.monotonic() + _PLAIN_INTERVAL_S

    def update(self) -> None:
        seen = total = None
        if self._replay and self._replayed is not None:
            facts = self._replay.facts
            seen, total = facts.get("seen", 0), facts.get("total")
            if total is None and not self._replay.is_running:
                total = seen
            self._show(self._replayed, seen, total, replay_rate(self._replay))
        read = self._spark.facts.get("read", 0)
        rate = "first micro-batch" if "spark" in self._spark.facts else "starting"
        if batches := self._spark.facts.get("batches"):
            rate = micro_batches(batches)
        self._show(self._read, read, total, rate)
        if self._progress.disable and time.monotonic() >= self._next_line:
            self._next_line += _PLAIN_INTERVAL_S
            sent = "" if seen is None else f"replayed {seen:,} {self._events}, "
            self._console.print(f"  {sent}Spark has committed {read:,} ({rate})", soft_wrap=True)

    def _show(self, task: TaskID, done: int, total: int | None, rate: str) -> None:
        count = f"{done:,}" if total is None else f"{done:,}/{total:,}"
        self._progress.update(task, completed=done, total=total, count=count, rate=rate)


def micro_batches(count: int) -> str:
    """Return a number of micro-batches with the noun."""
    return f"{count} micro-batch{'' if count == 1 else 'es'}"


def replay_rate(replay: Child) -> str:
    """Return the events per second of this attempt, such as `1,200/s`; empty if it is unknown."""
    sent, seconds = replay.facts.get("sent", 0), replay.facts.get("seconds", 0)
    return f"{sent / seconds:,.0f}/s" if seconds else ""


def _rates(spark: Child, replay: Child | None, spark_seconds: float, seconds: float, log_bytes: int) -> Rates:
    rates: Rates = []
    if replay:
        sent, took = replay.facts.get("sent", 0), replay.facts.get("seconds", 0.0)
        rates.append(("replay", f"{sent:,} events in {took:.1f} s, {replay_rate(replay)}"))
    read, batches = spark.facts.get("read", 0), spark.facts.get("batches", 0)
    rates.append(("spark", f"{read:,} records in {micro_batches(batches)}; this attempt {spark_seconds:.1f} s"))
    rates.append(("broker", f"{log_bytes / 1e6:,.1f} MB of log"))
    rates.append(("all", f"{seconds:.1f} s from start to the last commit"))
    return rates


def report(run: Run, rates: Rates, console: Console) -> bool:
    """Print the report and the comparison of the results with the input, and write the page and the chart. Return
    whether the results are exact.
    """
    from ottla.spark.report import chart, page
    from ottla_pipelines.serve import terminal
    from ottla_pipelines.serve.build import PAGE_TEMPLATE, build_report

    console.print("Computing the expected results from the input in plain Python.")
    made = build_report(run, rates)
    terminal.show(made, console)
    chart.draw(made, run.chart)
    page.write(made, run.page, PAGE_TEMPLATE)
    _line(console)("")
    for label, path in (("Page", run.page), ("Chart", run.chart), ("Parquet", run.datasets), ("Logs", run.logs)):
        _line(console)(f"{label:<12} {path}")
    _line(console)(f"{'Database':<12} {_without_password(run.database_url)}\n")
    account = made.account
    _line(console)(
        f"{account.noun} in {account.rows_in:,}, {account.noun} out {account.rows_out:,}, lost {account.lost:,}, "
        f"duplicated {account.duplicated:,}, not in the input {account.unknown:,}"
    )
    for difference in account.differences:
        _line(console)(f"  {difference}")
    _line(console)(account.statistics_line)
    in_table = made.table_account
    if in_table is not None:
        for difference in in_table.differences:
            _line(console)(f"  {difference} (table)")
        _line(console)(f"in the table ({run.table_format}, {run.tables}): {in_table.line}, {in_table.fields:,} values")
    _line(console)(account.line)
    return account.is_exact and (in_table is None or in_table.is_exact)


def _without_password(url: str) -> str:
    from sqlalchemy import make_url

    return make_url(url).render_as_string(hide_password=True)


def _line(console: Console) -> Callable[[str], None]:
    # soft_wrap, so that paths and the last line are not broken in a narrow terminal.
    return lambda text: console.print(text, soft_wrap=True, markup=False)
