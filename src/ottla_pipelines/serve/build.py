"""Building the report of a run from its database, Parquet files and input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ottla_pipelines.catalog import COUNTS, DELAYS, EVENT_ROWS, JOINED_FLIGHTS
from ottla_pipelines.ingest.nycflights import table
from ottla_pipelines.refine.store import Store
from ottla_pipelines.run import Run
from ottla_pipelines.serve.account import expected_flights, flight_account, read_rows
from ottla_pipelines.serve.counts import count_account, expected_events
from ottla_pipelines.serve.report import RunReport, count_report, flight_report

Rates = Sequence[tuple[str, str]]

PAGE_TEMPLATE = Path(__file__).with_name("run.html.jinja")
"""The template of the HTML page: that of `ottla.spark.report` with the account."""


def build_report(run: Run, rates: Rates) -> RunReport:
    """Return the report of a run, with the account."""
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
