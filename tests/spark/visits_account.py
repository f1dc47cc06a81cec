"""Compares the output of the page visits pipeline with results computed from the log in plain Python.

It uses neither Spark nor the pipeline's code, but implements the rules a second time.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
import sqlite3
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from tests.whole_topic import whole_topic

from ottla_pipelines.declarative.tables import read_table
from ottla_pipelines.topic_tables import TopicTables

PARTITIONS = 4
GAP = dt.timedelta(minutes=30)
LINE = re.compile(
    r'([^ \t]+) [^ \t]+ [^ \t]+ \[([^\]\t]+)\] "([A-Z]+) ([^ "\t]+)(?: [^"\t]*)?" ([0-9]{3}) ([0-9]{1,18}|-) '
    r'"([^"\t]*)" "([^"\t]*)"'
)
SESSION = ("visitor", "started", "ended", "visits", "entry_page", "exit_page", "referrer")
HEADER_PREFIX = "__ottla.errors."
TIMER = "monitor"
"""The visitor whose last visit ends all other sessions; the visitor's own session stays open."""


class Visit(NamedTuple):
    partition: int
    offset: int
    visitor: str
    time: dt.datetime
    method: str
    page: str
    status: int
    bytes: int | None
    referrer: str | None
    agent: str
    is_bot: bool


def visit_of(record: Any) -> Visit | str:
    """Parse a record; return a visit, or the names of the violated expectations."""
    try:
        line = LINE.fullmatch(record.value.decode()) if record.value is not None else None
    except UnicodeDecodeError:
        line = None
    if line is None:
        return "is a line of the log, has a time"
    visitor, time, method, page, status, size, referrer, agent = line.groups()
    try:
        at = dt.datetime.strptime(time, "%d/%b/%Y:%H:%M:%S %z")
    except ValueError:
        return "has a time"
    return Visit(
        record.partition,
        record.offset,
        visitor,
        at,
        method,
        page,
        int(status),
        None if size == "-" else int(size),
        None if referrer == "-" else referrer,
        agent,
        re.search("bot|crawl|spider|curl", agent, re.IGNORECASE) is not None,
    )


def sessions_of(visits: list[Visit]) -> Counter[tuple[Any, ...]]:
    """Return the sessions as tuples of the fields in SESSION."""
    by_visitor: dict[str, list[Visit]] = defaultdict(list)
    for visit in sorted(visits):
        if not visit.is_bot and visit.visitor != TIMER:
            by_visitor[visit.visitor].append(visit)
    result: Counter[tuple[Any, ...]] = Counter()
    for visitor, remaining in by_visitor.items():
        while remaining:
            latest, count = remaining[0].time, 1
            while count < len(remaining) and remaining[count].time - latest < GAP:
                latest = max(latest, remaining[count].time)
                count += 1
            part, remaining = remaining[:count], remaining[count:]
            referrer = next((v.referrer for v in part if v.referrer), None)
            result[visitor, min(v.time for v in part), latest, count, part[0].page, part[-1].page, referrer] += 1
    return result


def rows_of(project: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_table(project / "tables" / name).to_pylist()
    return rows


def check(address: str, project: Path) -> dict[str, int]:
    """Compare all output of the pipeline, and return the counts. Raises AssertionError if anything differs."""
    records = whole_topic(address, "visits", PARTITIONS)
    parsed = {(r.partition, r.offset): visit_of(r) for r in records}
    visits = [v for v in parsed.values() if isinstance(v, Visit)]
    check_visits(project, visits)
    dead = check_dead_letters(address, records, parsed)
    sessions = check_sessions(address, project, visits)
    check_views(project, visits)
    check_quality(project, parsed)
    written = [json.loads(r.value)["offset"] for r in read_committed(address, "parsed-visits")]
    assert Counter(written) == Counter(v.offset for v in visits)
    check_topic_tables(address, visits)
    return {"records": len(records), "visits": len(visits), "dead letters": dead, "sessions": sessions}


def read_committed(address: str, topic: str) -> list[Any]:
    return whole_topic(address, topic, 1, isolation_level="read_committed")


def check_visits(project: Path, visits: list[Visit]) -> None:
    result = Counter(tuple(row[name] for name in Visit._fields) for row in rows_of(project, "visits"))
    assert result == Counter(map(tuple, visits)), difference(result, Counter(map(tuple, visits)))


def check_dead_letters(address: str, records: list[Any], parsed: dict[tuple[int, int], Visit | str]) -> int:
    """Check that each record that is no visit is a dead letter once, with its bytes, its position and the reason."""
    result: Counter[tuple[Any, ...]] = Counter()
    for letter in read_committed(address, "dead-letters"):
        reported = {k.removeprefix(HEADER_PREFIX): v.decode() for k, v in letter.headers}
        result[int(reported["partition"]), int(reported["offset"]), letter.key, letter.value, reported["message"]] += 1
        assert (reported["topic"], int(reported["timestamp"]) > 0) == ("visits", True)
    expected: Counter[tuple[Any, ...]] = Counter()
    for r in records:
        reason = parsed[r.partition, r.offset]
        if isinstance(reason, str):
            expected[r.partition, r.offset, r.key, r.value, reason] += 1
    assert result == expected, difference(result, expected)
    return result.total()


def check_sessions(address: str, project: Path, visits: list[Visit]) -> int:
    expected = sessions_of(visits)
    result = Counter(tuple(row[name] for name in SESSION) for row in rows_of(project, "sessions"))
    assert result == expected, difference(result, expected)
    texts = [json.loads(r.value) for r in read_committed(address, "sessions")]
    sent = Counter(
        (
            t["visitor"],
            at(t["started"]),
            at(t["ended"]),
            t["visits"],
            t["entry_page"],
            t["exit_page"],
            t.get("referrer"),
        )
        for t in texts
    )
    assert sent == expected, difference(sent, expected)
    with contextlib.closing(sqlite3.connect(project / "results.db")) as connection:
        rows = connection.execute(f"select {', '.join(SESSION)} from sessions").fetchall()
    stored = Counter((v, at(s), at(e), *rest) for v, s, e, *rest in rows)
    assert stored == expected, difference(stored, expected)
    return expected.total()


def check_topic_tables(address: str, visits: list[Visit]) -> None:
    """Check that the topics' Iceberg tables have a row per record, with the values of the log."""
    with TopicTables(address) as tables:
        written = {table.topic: (table.format, table.rows) for table in tables.write()}
        expected = sessions_of(visits)
        sizes = {"parsed-visits": len(visits), "sessions": expected.total()}
        assert written == {topic: ("iceberg", rows) for topic, rows in sizes.items()}
        columns = ["value_partition", "value_offset", *Visit._fields[2:]]
        rows = Counter(tuple(row.values()) for row in tables.read("parsed-visits", columns).to_pylist())
        assert rows == Counter(map(tuple, visits)), difference(rows, Counter(map(tuple, visits)))
        rows = Counter(tuple(row.values()) for row in tables.read("sessions", SESSION).to_pylist())
        assert rows == expected, difference(rows, expected)
        result = tables.query("select max(visits) as longest from sessions")
        assert (result.names, next(result.rows)) == (["longest"], (max(session[3] for session in expected),))


def at(text: str) -> dt.datetime:
    time = dt.datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=dt.UTC)


def check_views(project: Path, visits: list[Visit]) -> None:
    people = [v for v in visits if not v.is_bot]
    assert {r["referrer"]: r["count"] for r in rows_of(project, "referrers")} == Counter(
        v.referrer for v in people if v.referrer
    )
    per_minute: dict[dt.datetime, list[str]] = defaultdict(list)
    per_hour: dict[dt.datetime, Counter[str]] = defaultdict(Counter)
    for v in people:
        per_minute[v.time.replace(second=0)].append(v.visitor)
        per_hour[v.time.replace(minute=0, second=0)][v.page] += 1
    rows = {r["minute"]: (r["visitors"], r["visits"]) for r in rows_of(project, "visitors_per_minute")}
    assert rows == {minute: (len(set(who)), len(who)) for minute, who in per_minute.items()}
    top = {(r["hour"], r["rank"]): (r["page"], r["visits"]) for r in rows_of(project, "top_pages")}
    assert top == {
        (hour, rank): pair
        for hour, pages in per_hour.items()
        for rank, pair in enumerate(sorted(pages.items(), key=lambda p: (-p[1], p[0]))[:10], start=1)
    }


def check_quality(project: Path, parsed: dict[tuple[int, int], Visit | str]) -> None:
    """Check that every expectation has counted each record once, and its violations."""
    unmet = Counter[str]()
    for v in parsed.values():
        unmet.update(v.split(", ") if isinstance(v, str) else () if v.referrer else ("comes from somewhere",))
    rows = {r["name"]: (r["seen"], r["unmet"]) for r in rows_of(project, "quality")}
    for name in ("is a line of the log", "has a time"):
        assert rows[name] == (len(parsed), unmet[name]), name
    # Whether a malformed line has a referrer depends on the kind of damage, which is not checked here.
    seen, nowhere = rows["comes from somewhere"]
    assert seen == len(parsed)
    assert 0 <= nowhere - unmet["comes from somewhere"] <= unmet["has a time"]


def difference(actual: Counter[Any], expected: Counter[Any]) -> str:
    lost, more = expected - actual, actual - expected
    return (
        f"{lost.total()} of {expected.total()} are missing, {more.total()} too many; "
        f"missing {list(lost)[:3]}, too many {list(more)[:3]}"
    )
