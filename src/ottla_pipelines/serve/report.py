"""The report of a run. `flight_report` and `count_report` build it from the statistics."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.spark.report.report import Bars, Calendar, Multiples, Report, TableData
from ottla_pipelines.catalog import WEATHER_CLASSES
from ottla_pipelines.ingest.nycflights import FLIGHT_COUNT
from ottla_pipelines.serve.account import Account

Statistics = Sequence[Mapping[str, Any]]

_TOP = 10


@dataclass(frozen=True)
class RunReport(Report):
    """A report with the comparison of the run's results with its input."""

    account: Account = field(kw_only=True)
    table_account: Account | None = field(default=None, kw_only=True)
    """The comparison of the rows in the run's table with the input; None without a table."""


class Group(NamedTuple):
    """The delay statistics of a group of flights. Delays are in minutes. `delay_max` is only valid if a flight has
    departed.
    """

    name: str
    flights: int
    cancelled: int
    delayed: int
    delay_sum: int
    delay_max: int

    @property
    def departed(self) -> int:
        """The number of flights that departed."""
        return self.flights - self.cancelled

    @property
    def delayed_percent(self) -> float:
        """The percentage of departed flights that were at least 15 minutes late."""
        return 100 * self.delayed / self.departed if self.departed else 0.0

    @property
    def cancelled_percent(self) -> float:
        """The percentage of flights that were cancelled."""
        return 100 * self.cancelled / self.flights if self.flights else 0.0

    @property
    def mean_delay(self) -> float:
        """The mean delay of departed flights in minutes. Early departures have negative delays."""
        return self.delay_sum / self.departed if self.departed else 0.0


def grouped(statistics: Statistics, name: Callable[[Mapping[str, Any]], str]) -> list[Group]:
    """Return the statistics summed up by group, sorted by name. `name` returns the group name of a row."""
    sums: dict[str, Group] = {}
    for row in statistics:
        key = name(row)
        old = sums.get(key, Group(key, 0, 0, 0, 0, -(10**9)))
        sums[key] = Group(
            key,
            old.flights + row["flights"],
            old.cancelled + row["cancelled"],
            old.delayed + row["delayed"],
            old.delay_sum + row["delay_sum"],
            old.delay_max if row["delay_max"] is None else max(old.delay_max, row["delay_max"]),
        )
    return [sums[key] for key in sorted(sums)]


def flight_report(
    statistics: Statistics, airlines: Mapping[str, str], account: Account, rates: Sequence[tuple[str, str]]
) -> RunReport:
    """Return the report of delays by weather, airport, airline and day, and of cancellations by month.

    `airlines`: their names by carrier code.
    """
    order = {name: i for i, (name, _) in enumerate(WEATHER_CLASSES)}
    weather = sorted(grouped(statistics, lambda s: str(s["weather"])), key=lambda g: order[g.name])
    airports = grouped(statistics, lambda s: str(s["airport"]))
    carriers = grouped(statistics, lambda s: airlines.get(s["carrier"], s["carrier"]))
    carriers.sort(key=lambda g: -g.flights)
    months = grouped(statistics, lambda s: f"{s['day']:%Y-%m}")
    days = sorted(grouped(statistics, lambda s: str(s["day"])), key=lambda g: -g.mean_delay)
    crossed = grouped(statistics, lambda s: f"{s['airport']} {s['weather']}")
    crossed.sort(key=lambda g: (g.name.split()[0], order[g.name.split()[1]]))
    flights = f"The first {account.rows_in:,} flights" if account.rows_in < FLIGHT_COUNT else "Flights"
    return RunReport(
        f"{flights} from New York in 2013 and the weather",
        _flight_findings(weather, airports, days),
        [
            _delay_table("By weather at the airport", "weather", weather),
            _delay_table("By airport and weather", "airport, weather", crossed),
            _delay_table("By airline", "airline", carriers),
            _delay_table("The worst days", "day", days[:_TOP]),
        ],
        [
            _bars("Flights 15 minutes late or more, by weather", "%", weather, lambda g: g.delayed_percent),
            _bars("Mean delay by airport and weather", "minutes", crossed, lambda g: g.mean_delay),
            _bars("Mean delay by airline", "minutes", carriers, lambda g: g.mean_delay),
            _bars("Cancelled by month", "%", months, lambda g: g.cancelled_percent),
        ],
        rates,
        account=account,
        figures=[
            _bars("Flights 15 minutes late or more, by weather", "%", weather, lambda g: g.delayed_percent),
            _bars("Mean delay by airline", "min", carriers, lambda g: g.mean_delay),
            Multiples("Mean delay by airport and weather", _by_airport(statistics)),
            Calendar("Mean delay of each day", "min", {dt.date.fromisoformat(g.name): g.mean_delay for g in days}),
            _bars("Cancelled by month", "%", months, lambda g: g.cancelled_percent)._replace(is_series=True),
        ],
    )


def _by_airport(statistics: Statistics) -> list[Bars]:
    airports = sorted({str(row["airport"]) for row in statistics})
    return [
        _bars(
            airport,
            "min",
            grouped([row for row in statistics if row["airport"] == airport], lambda row: str(row["weather"])),
            lambda group: group.mean_delay,
        )
        for airport in airports
    ]


def _flight_findings(weather: Sequence[Group], airports: Sequence[Group], days: Sequence[Group]) -> list[str]:
    groups = [g for g in weather if g.departed and g.name != "unknown"]
    if not groups:
        return ["No flight left."]
    worst, fair = max(groups, key=lambda g: g.delayed_percent), min(groups, key=lambda g: g.delayed_percent)
    late = f"{worst.delayed_percent:.0f} % of flights left 15 minutes late or more"
    lines = [f"In {worst.name}, {late}, against {fair.delayed_percent:.0f} % in {fair.name} weather."]
    if worst is fair:  # with --limit, there may be one kind of weather, and one day
        lines = [f"In {worst.name} weather, {late}."]
    snow = next((g for g in groups if g.name == "snow"), None)
    if snow:
        all_flights, all_cancelled = sum(g.flights for g in weather), sum(g.cancelled for g in weather)
        lines.append(
            f"In snow, {snow.cancelled_percent:.1f} % of flights were cancelled, against "
            f"{100 * all_cancelled / all_flights:.1f} % of all flights."
        )
    slow = max(airports, key=lambda g: g.mean_delay)
    if len(airports) > 1:
        lines.append(f"{slow.name} was the slowest airport, with {slow.mean_delay:.1f} minutes of delay per flight.")
    day = dt.date.fromisoformat(days[0].name)
    if len(days) > 1:
        lines.append(f"The worst day was {day:%A, %d %B}, with {days[0].mean_delay:.0f} minutes per flight.")
    return lines


def _delay_table(title: str, first: str, groups: Iterable[Group]) -> TableData:
    columns = (first, "flights", "cancelled", "15 min late", "mean delay", "longest")
    rows = [
        (
            g.name,
            f"{g.flights:,}",
            f"{g.cancelled_percent:.1f} %",
            f"{g.delayed_percent:.1f} %",
            f"{g.mean_delay:.1f} min",
            f"{g.delay_max:,} min" if g.departed else "",
        )
        for g in groups
    ]
    return TableData(title, columns, rows)


def _bars(title: str, unit: str, groups: Sequence[Group], value: Callable[[Group], float]) -> Bars:
    return Bars(title, unit, [g.name for g in groups], [value(g) for g in groups])


def count_report(name: str, statistics: Statistics, account: Account, rates: Sequence[tuple[str, str]]) -> RunReport:
    """Return the report of events by group and by hour. `name` is the name of the input file."""
    by_group: dict[str, int] = {}
    by_hour: dict[str, int] = {}
    for row in statistics:
        by_group[row["event_group"]] = by_group.get(row["event_group"], 0) + row["events"]
        by_hour[row["window_start"]] = by_hour.get(row["window_start"], 0) + row["events"]
    groups = sorted(by_group.items(), key=lambda item: (-item[1], item[0]))[:_TOP]
    hours = sorted(by_hour.items())
    busiest = max(hours, key=lambda item: item[1], default=("", 0))
    findings = [f"{len(by_group):,} groups over {len(by_hour):,} hours."]
    if busiest[0]:
        findings.append(f"The busiest hour began at {busiest[0]}, with {busiest[1]:,} events.")
    return RunReport(
        f"Events of {name}",
        findings,
        [TableData("The largest groups", ("group", "events"), [(g, f"{n:,}") for g, n in groups])],
        [
            Bars("The largest groups", "events", [g for g, _ in groups], [n for _, n in groups]),
            Bars("Events by hour", "events", [h or "no time" for h, _ in hours], [n for _, n in hours], is_series=True),
        ],
        rates,
        account=account,
    )
