"""From a run's database and Parquet files, and its input, to its report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ottla.pipelines.catalog import COUNTS, DELAYS, EVENT_ROWS, JOINED_FLIGHTS
from ottla.pipelines.ingest.nycflights import table
from ottla.pipelines.refine.store import Store
from ottla.pipelines.run import Run
from ottla.pipelines.serve.account import expected_flights, flight_account, read_rows
from ottla.pipelines.serve.counts import count_account, expected_events
from ottla.pipelines.serve.report import RunReport, count_report, flight_report

Rates = Sequence[tuple[str, str]]

PAGE_TEMPLATE = Path(__file__).with_name("run.html.jinja")
"""The page of `ottla.report` with the account in it."""


def build_report(run: Run, rates: Rates) -> RunReport:
    """Everything to show at the end of a run, the account included."""
    with Store.open(run.database_url) as store:
        return _counts(run, store, rates) if run.input else _flights(run, store, rates)


def _flights(run: Run, store: Store, rates: Rates) -> RunReport:
    statistics = store.rows(DELAYS)
    rows = read_rows(run.datasets, JOINED_FLIGHTS.name, store.batch_ids())
    account = flight_account(expected_flights(run.limit), rows, statistics)
    names: dict[str, Any] = {a["carrier"] or "": a["name"] for a in table("airlines.csv")}
    return flight_report(statistics, names, account, rates)


def _counts(run: Run, store: Store, rates: Rates) -> RunReport:
    assert run.input is not None
    statistics = store.rows(COUNTS)
    rows = read_rows(run.datasets, EVENT_ROWS.name, store.batch_ids())
    account = count_account(expected_events(run.input, run.by), rows, statistics)
    return count_report(run.input.name, statistics, account, rates)
