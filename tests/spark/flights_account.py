"""The flights of a declarative pipeline against the CSV, by the account of the main job."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

from tests.spark.visits_account import HEADER_PREFIX, difference, read_committed, rows_of
from tests.whole_topic import whole_topic

from ottla.pipelines.catalog import FLIGHTS, WEATHER
from ottla.pipelines.declarative.tables import read_table
from ottla.pipelines.serve.account import expected_flights, flight_account


def check(address: str, project: Path, limit: int | None, broken: Counter[tuple[int, int, bytes]]) -> dict[str, int]:
    """Compare everything; `broken`: partition, offset and value of what was sent to `flights` besides."""
    expected = expected_flights(limit)
    rows = read_table(project / "tables" / "joined_flights").sort_by("row")
    account = flight_account(expected, rows, rows_of(project, "delays"))
    assert account.is_exact, (account.line, account.differences)
    numbers = Counter(expected["row"])
    sent = Counter(json.loads(r.value)["row"] for r in read_committed(address, "joined-flights"))
    assert sent == numbers, difference(sent, numbers)
    with contextlib.closing(sqlite3.connect(project / "results.db")) as connection:
        stored = Counter(row for (row,) in connection.execute("select row from joined_flights"))
    assert stored == numbers, difference(stored, numbers)
    check_dead_letters(address, broken)
    records = sum(len(whole_topic(address, t.name, t.partitions)) for t in (FLIGHTS, WEATHER))
    quality = {r["name"]: (r["seen"], r["unmet"]) for r in rows_of(project, "quality")}
    assert quality["is an event"] == (records, broken.total())
    return {"records": records, "flights": account.rows_out, "fields": account.fields, "dead letters": broken.total()}


def check_dead_letters(address: str, broken: Counter[tuple[int, int, bytes]]) -> None:
    found: Counter[tuple[int, int, Any]] = Counter()
    for letter in read_committed(address, "dead-letters") if broken else ():
        told = {k.removeprefix(HEADER_PREFIX): v.decode() for k, v in letter.headers}
        assert told["topic"] == FLIGHTS.name
        found[int(told["partition"]), int(told["offset"]), letter.value] += 1
    assert found == broken, difference(found, broken)
