"""Building the report of a run from its database, Parquet files and input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ottla_pipelines.catalog import COUNTS, DELAYS, EVENT_ROWS, JOINED_FLIGHTS
from ottla_pipelines.ingest.nycflights import table
from ottla_pipelines.refine.store import Store
from ottla_pipelines.run import Run
from ottla_pipelines.serve.account import Account, expected_flights, flight_account, read_rows, row_account
from ottla_pipelines.serve.counts import count_account, expected_events
from ottla_pipelines.serve.report import RunReport, count_report, flight_report

Rates = Sequence[tuple[str, str]]

PAGE_TEMPLATE = Path(__file__).with_name("run.html.jinja")
"""The template of the HTML page: that of `ottla.spark.report`, with the comparison of results and input."""


def build_report(run: Run, rates: Rates) -> RunReport:
    """Return the report of a run, including the comparison of its results with its input."""
    with Store.open(run.database_url) as store:
        return _counts(run, store, rates) if run.input else _flights(run, store, rates)


def _flights(run: Run, store: Store, rates: Rates) -> RunReport:
    statistics = store.rows(DELAYS)
    rows = read_rows(run.datasets, JOINED_FLIGHTS.name, store.batch_ids())
    expected = expected_flights(run.limit)
    account = flight_account(expected, rows, statistics)
    names: dict[str, Any] = {a["carrier"] or "": a["name"] for a in table("airlines.csv")}
    return replace(flight_report(statistics, names, account, rates), table_account=_table_account(run, expected))


def _counts(run: Run, store: Store, rates: Rates) -> RunReport:
    assert run.input is not None
    statistics = store.rows(COUNTS)
    rows = read_rows(run.datasets, EVENT_ROWS.name, store.batch_ids())
    expected = expected_events(run.input, run.by)
    account = count_account(expected, rows, statistics)
    made = count_report(run.input.name, statistics, account, rates)
    return replace(made, table_account=_table_account(run, expected))


def _table_account(run: Run, expected: Mapping[str, Sequence[Any]]) -> Account | None:
    """Return the comparison of the rows in the table with the input; None without a table."""
    if run.table_format is None:
        return None
    from ottla_pipelines.serve.row_table import read_table

    return row_account(run.noun, expected, read_table(run))
