"""The demo's reports in the terminal and as HTML."""

import datetime as dt
import io
from pathlib import Path

import pytest

pytest.importorskip("rich")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
pytest.importorskip("sqlalchemy")

from rich.console import Console

from ottla.spark.report import chart, page
from ottla_pipelines.serve import terminal
from ottla_pipelines.serve.account import Account
from ottla_pipelines.serve.build import PAGE_TEMPLATE
from ottla_pipelines.serve.report import RunReport, count_report, flight_report, grouped

ACCOUNT = Account("flights", 30, 30, 0, 0, 0, 3, 99)


def row(weather: str, flights: int, cancelled: int, delayed: int, day: int = 1) -> dict[str, object]:
    key = {"day": dt.date(2013, 1, day), "airport": "EWR", "carrier": "UA", "weather": weather}
    sums = {"flights": flights, "cancelled": cancelled, "delayed": delayed, "delay_sum": 30 * delayed}
    return {**key, **sums, "delay_max": 99 if delayed else None, "arrived": 1, "arrival_delay_sum": 2}


STATISTICS = [row("fair", 10, 0, 1), row("snow", 10, 5, 4, day=2), row("fair", 10, 0, 2, day=3)]


def flights() -> RunReport:
    return flight_report(STATISTICS, {"UA": "United <Air> Lines"}, ACCOUNT, [("replay", "5 events")])


def test_statistics_are_summed_by_group() -> None:
    fair, snow = grouped(STATISTICS, lambda s: str(s["weather"]))
    assert (fair.flights, fair.delayed_percent, fair.mean_delay) == (20, 15.0, 4.5)
    assert (snow.cancelled_percent, snow.delayed_percent, snow.delay_max) == (50.0, 80.0, 99)


def test_findings_compare_the_worst_weather_with_the_best() -> None:
    assert (
        flights().findings[0] == "In snow, 80 % of flights left 15 minutes late or more, against 15 % in fair weather."
    )
    assert "Wednesday, 02 January" in flights().findings[-1]


def test_flight_report_of_one_day_names_the_limit_and_makes_no_comparisons() -> None:
    report = flight_report([row("fair", 30, 0, 3)], {"UA": "United"}, ACCOUNT, [])
    assert report.title == "The first 30 flights from New York in 2013 and the weather"
    assert report.findings == ["In fair weather, 10 % of flights left 15 minutes late or more."]


def test_report_without_flights_states_that_no_flight_left() -> None:
    empty = flight_report([], {}, ACCOUNT, [])
    assert empty.findings == ["No flight left."]


def test_terminal_report_shows_tables_and_rates() -> None:
    out = io.StringIO()
    terminal.show(flights(), Console(file=out, width=100))
    assert "snow" in out.getvalue()
    assert "replay" in out.getvalue()


def test_html_report_is_complete_and_escaped(tmp_path: Path) -> None:
    chart.draw(flights(), tmp_path / "c.png")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    page.write(flights(), tmp_path / "r.html", PAGE_TEMPLATE)
    html = (tmp_path / "r.html").read_text()
    assert "United &lt;Air&gt; Lines" in html
    assert "30 of 30 flights, 0 lost, 0 duplicated" in html
    assert html.count("<figure>") == 5
    assert "Tuesday, 01 January 2013: 3 min" in html  # a day of the calendar
    assert "Python" in html.partition("<footer>")[2]
    assert "http" not in html.replace("http-equiv", "")


def test_count_report_sums_by_group_and_names_the_busiest_hour() -> None:
    statistics = [
        {"window_start": "2025-01-01T10:00:00Z", "event_group": "200", "events": 5},
        {"window_start": "2025-01-01T11:00:00Z", "event_group": "200", "events": 1},
        {"window_start": "2025-01-01T10:00:00Z", "event_group": "404", "events": 2},
    ]
    report = count_report("access.log", statistics, ACCOUNT, [])
    assert report.tables[0].rows == [("200", "6"), ("404", "2")]
    assert report.findings[1] == "The busiest hour began at 2025-01-01T10:00:00Z, with 7 events."
