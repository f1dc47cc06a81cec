"""Output of the commands: text for people, JSON for programs, tables in the layout of Kafka's tools."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.errors import KafkaError
from ottla.model import Node

MIN_WIDTH: Final = 15
"""The minimum width of a column, in characters."""


def coordinator_of(group: Any, nodes: Iterable[Node]) -> tuple[str, dict[str, Any]]:
    """Return the coordinator of a described group as text, without its id, and for JSON.

    Only the id of one that is not among the live brokers is known.
    """
    node = next((node for node in nodes if node.id == group.coordinator_id), Node(group.coordinator_id, "-", -1))
    return f"{node.host}:{node.port}", {"id": node.id, "host": node.host, "port": node.port}


class Output:
    """The output of a command: text at once, or one JSON document at the end."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.document: Any = None
        """The document that `--json` prints; nothing if it is None."""
        self.exit_code = 0

    def text(self, *lines: str) -> None:
        """Print lines, unless the output is JSON."""
        if lines and not self.as_json:
            print(*lines, sep="\n", flush=True)

    def report(self, text: str, **fields: Any) -> None:
        """Print text, and add the same information to the JSON document, which is printed also after an error."""
        self.text(text)
        if fields:
            self.document = {**(self.document or {}), **fields}

    def warn(self, *lines: str) -> None:
        """Print lines on standard error."""
        print(*lines, sep="\n", file=sys.stderr, flush=True)

    def error(self, *lines: str) -> int:
        """Print lines on standard error; the command fails, with the exit code that is returned."""
        self.warn(*lines)
        self.exit_code = 1
        return self.exit_code

    def rows(self, header: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Print rows as a table, and return them for JSON."""
        rows = list(rows)
        self.text(*tabbed(header, ([_cell(value) for value in row.values()] for row in rows)))
        return rows

    def close(self) -> None:
        """Print the JSON document."""
        if self.as_json and self.document is not None:
            print(json.dumps(self.document))


def _cell(value: Any) -> str:
    return "None" if value is None else ",".join(value) if isinstance(value, list) else str(value)


def lines(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lay out header and rows in columns as wide as their widest cell and Kafka's minimum; None is printed as `-`."""
    cells = [list(header), *([("-" if c is None else str(c)) for c in row] for row in rows)]
    widths = [max(MIN_WIDTH, *(len(row[i]) for row in cells)) for i in range(len(header))]
    return [" ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def columns(header: Sequence[str], rows: Iterable[Sequence[object]], minima: Sequence[int]) -> list[str]:
    """Lay out header and rows in columns of at least these widths, as Kafka's tools for share groups do."""
    cells = [list(header), *([("-" if c is None else str(c)) for c in row] for row in rows)]
    widths = [max(least, *(len(row[i]) for row in cells)) for i, least in enumerate(minima)]
    return [" ".join([*(f"{c:<{w}}" for c, w in zip(row, widths, strict=False)), row[-1]]) for row in cells]


def tabbed(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lay out header and rows as some of Kafka's newer tools do: no minimum width, a tab after each column."""
    cells = [header, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return ["".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)) for row in cells]


def in_one_line(fields: Mapping[str, Any]) -> str:
    """Return JSON as Kafka's tools print it: without spaces, and not escaped to ASCII."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def partition_errors(errors: Mapping[Any, KafkaError]) -> list[dict[str, Any]]:
    """Return errors by TopicPartition for JSON, sorted by partition."""
    return [
        {**tp._asdict(), "error": error.__class__.__name__, "message": str(error)}
        for tp, error in sorted(errors.items())
    ]


def ids(brokers: Iterable[int]) -> str:
    """Return broker ids separated by commas."""
    return ",".join(map(str, brokers))
