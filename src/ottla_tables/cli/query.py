"""`ottla tables query`: prints the result of a query as a table, or with --json as a JSON object per row."""

from __future__ import annotations

import argparse
import base64
import json
from itertools import islice
from typing import Any, Final

from ottla.cli.framework.output import lines
from ottla_tables.query.engine import QueryEngine, Result

PRINTED_ROWS: Final = 1000
"""Number of rows over which column widths are computed at a time."""


def query(engine: QueryEngine, args: argparse.Namespace) -> int:
    """Run the query and print its result. Raises the errors of `QueryEngine.run`, also while it prints."""
    result = engine.run(args.sql)
    if args.json:
        for row in result.rows:
            print(json.dumps({name: _plain(value) for name, value in zip(result.names, row, strict=True)}))
    else:
        _print_table(result)
    return 0


def _print_table(result: Result) -> None:
    first = True
    while rows := list(islice(result.rows, PRINTED_ROWS)):
        table = lines(result.names, [[_text(value) for value in row] for row in rows])
        print("\n".join(table if first else table[1:]))
        first = False
    if first and result.names:
        print("\n".join(lines(result.names, [])))


def _plain(value: Any) -> Any:
    """Convert a value for JSON. Bytes that are not valid UTF-8 become base64."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _text(value: Any) -> str | None:
    plain = _plain(value)
    if plain is None or isinstance(plain, str):
        return plain
    return json.dumps(plain, ensure_ascii=False)
