"""The output of commands: text, JSON for programs, and tables in the formats of Kafka's tools."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.errors import KafkaError
from ottla.model import Node

MIN_WIDTH: Final = 15
"""The minimum width in characters of a column in `lines`."""


def coordinator_of(group: Any, nodes: Iterable[Node]) -> tuple[str, dict[str, Any]]:
    """Return the coordinator of a described group: its address as text, and its id, host and port for JSON.

    If the coordinator is not among the nodes, only its id is known; the address is then `-:-1`.
    """
    node = next((node for node in nodes if node.id == group.coordinator_id), Node(group.coordinator_id, "-", -1))
    return f"{node.host}:{node.port}", {"id": node.id, "host": node.host, "port": node.port}


class Output:
    """The output of a command: text that is printed immediately, or a JSON document that `close` prints."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.document: Any = None
        """The document that `close` prints with `--json`; None for no document."""
        self.exit_code = 0

    def text(self, *lines: str) -> None:
        """Print lines, unless the output is JSON."""
        if lines and not self.as_json:
            print(*lines, sep="\n", flush=True)

    def report(self, text: str, **fields: Any) -> None:
        """Print text, unless the output is JSON, and add fields to the JSON document. The document is printed even if
        an error follows.
        """
        self.text(text)
        if fields:
            self.document = {**(self.document or {}), **fields}

    def warn(self, *lines: str) -> None:
        """Print lines on standard error, also if the output is JSON."""
        print(*lines, sep="\n", file=sys.stderr, flush=True)

    def error(self, *lines: str) -> int:
        """Print lines on standard error, set the exit code to 1, and return it."""
        self.warn(*lines)
        self.exit_code = 1
        return self.exit_code

    def rows(self, header: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Print rows as a table unless the output is JSON, and return them as a list. None is printed as `None`."""
        rows = list(rows)
        self.text(*tabbed(header, ([_cell(value) for value in row.values()] for row in rows)))
        return rows

    def close(self) -> None:
        """Print the JSON document if the output is JSON and there is one."""
        if self.as_json and self.document is not None:
            print(json.dumps(self.document))


def _cell(value: Any) -> str:
    return "None" if value is None else ",".join(value) if isinstance(value, list) else str(value)


def lines(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Format a table in which each column is as wide as its widest cell, but at least MIN_WIDTH. None is printed as
    `-`.
    """
    cells = [header, *rows]
    widths = [widest((row[i] for row in cells), MIN_WIDTH) for i in range(len(header))]
    return [line.rstrip() for line in aligned(cells, widths)]


def columns(header: Sequence[str], rows: Iterable[Sequence[object]], minima: Sequence[int]) -> list[str]:
    """Format a table as Kafka's tools for share groups do: `minima` are the minimum widths of all columns but the last
    one, which is not padded.
    """
    cells = [header, *rows]
    widths = [widest((row[i] for row in cells), least) for i, least in enumerate(minima)]
    return aligned(cells, [*widths, 0])


def aligned(rows: Iterable[Sequence[object]], widths: Sequence[int]) -> list[str]:
    """Format rows with columns of these widths, separated by a space; longer cells are not cut. None is printed as
    `-`.
    """
    return [" ".join(f"{_shown(cell):<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]


def widest(cells: Iterable[object], least: int) -> int:
    """Return the width of the longest cell in characters, but at least `least`."""
    return max([least, *(len(_shown(cell)) for cell in cells)])


def _shown(cell: object) -> str:
    return "-" if cell is None else str(cell)


def tabbed(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Format a table as some newer tools of Kafka do: without minimum widths, and with a tab after each column."""
    cells = [header, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return ["".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)) for row in cells]


def in_one_line(fields: Mapping[str, Any]) -> str:
    """Return JSON as Kafka's tools print it: without spaces, and with characters outside ASCII unchanged."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def partition_errors(errors: Mapping[Any, KafkaError]) -> list[dict[str, Any]]:
    """Return errors in the form that `--json` prints, sorted by partition. The keys are TopicPartitions."""
    return [
        {**tp._asdict(), "error": error.__class__.__name__, "message": str(error)}
        for tp, error in sorted(errors.items())
    ]


def group_deletions(
    output: Output, kind: str, groups: Sequence[str], failed: Mapping[Any, KafkaError]
) -> dict[str, Any]:
    """Print which groups of a kind, such as `consumer`, were deleted, and return the results for JSON. `failed`: the
    errors of the groups that could not be deleted; if there are any, the exit code is 1.
    """
    deleted = [group for group in groups if group not in failed]
    names = ", ".join(f"'{group}'" for group in deleted)
    if not failed:
        output.text(f"Deletion of requested {kind} groups ({names}) was successful.")
    else:
        output.error(f"\nError: Deletion of some {kind} groups failed:")
        output.warn(*(f"* Group '{g}' could not be deleted due to: {failed[g]}" for g in groups if g in failed))
        if deleted:
            output.text(f"\nThese {kind} groups were deleted successfully: {names}")
    return {"deleted": deleted, "errors": [{"group": g, "message": str(error)} for g, error in failed.items()]}


def ids(brokers: Iterable[int]) -> str:
    """Return broker ids separated by commas."""
    return ",".join(map(str, brokers))
