"""Upserts into a table in a store that sometimes fails, compared with the log."""

from __future__ import annotations

import json

from tests.unit.tables.topics import TableWorld

from ottla_tables.errors import TableError
from ottla_tables.query.engine import QueryEngine
from ottla_tables.service import TableService


def write_all(service: TableService) -> None:
    """Write everything; retry after errors of the store."""
    for attempt in range(10):
        try:
            service.write_all()
            return
        except TableError:
            if attempt == 9:
                raise


def check_upserts(world: TableWorld) -> None:
    """Upsert rows with new fields and dead letters, merge the files, and compare the table with the log."""
    service, latest = world.service(), {}
    for turn in range(2):
        for number in range(turn * 3, turn * 3 + 3):
            key = b"k%d" % (number % 5)
            latest[key] = (number, number if turn else None)
            value = {"n": number, "new": number} if turn else {"n": number}
            world.send(json.dumps(value).encode(), key=key)
        world.send(b"no JSON", key=b"bad")
        write_all(service)
    # a file that was not merged yet, because a request failed, has no column `new`
    rows = sorted((row["key"], (row["n"], row.get("new"))) for row in world.rows())
    assert rows == sorted(latest.items())
    assert len(world.rows("_dead_letters")) == 2
    world.send(b'{"n": 99}', key=b"k0")
    latest[b"k0"] = (99, None)
    engine = QueryEngine(world.lookup, world.factory, {"bootstrap.servers": world.servers})
    result = engine.run(f'select key, n, new from "{world.topic}"')
    assert sorted((key, (n, new)) for key, n, new in result.rows) == sorted(latest.items())
