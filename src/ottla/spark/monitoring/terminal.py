"""Shows the queries on stderr or another stream: as a table that is updated in place if the stream is a terminal and
rich is installed, otherwise as lines from time to time.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from typing import IO, Any, Final

from ottla.spark.monitoring.history import Histories, QueryHistory

TABLE_SECONDS: Final = 0.5
LINE_SECONDS: Final = 5.0

COLUMNS: Final = ("query", "batch", "rows", "rows/s", "behind", "state", "took")

Tasks = Callable[[], tuple[int, int] | None]
"""Returns the numbers of finished and of all tasks in the active stages; None if no stage is active or Spark does not
report them, as with Spark Connect.
"""


class Terminal:
    """Shows the queries, in a separate thread, until it is closed."""

    def __init__(self, histories: Histories, tasks: Tasks, stream: IO[str] | None = None) -> None:
        self._histories = histories
        self._tasks = tasks
        self._stream = stream or sys.stderr
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ottla-watch", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Show the final state, and stop the thread."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        if self._stream.isatty() and importlib.util.find_spec("rich") is not None:
            self._show_table()
        else:
            self._show_lines()

    def _show_table(self) -> None:
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(file=self._stream), auto_refresh=False) as live:
            while True:
                ending = self._closing.wait(TABLE_SECONDS)
                live.update(self._table(), refresh=True)
                if ending:
                    return

    def _table(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        tasks = None if self._closing.is_set() else self._tasks()
        table = Table(box=None, pad_edge=False, caption=task_count(tasks), caption_justify="left")
        for column in COLUMNS:
            table.add_column(column, justify="left" if column == "query" else "right")
        with self._histories.reading() as queries:
            for query in queries:
                # Not as markup: [x] in a name would be taken for a style, and [/x] for an error.
                table.add_row(*map(Text, cells(query)))
        return table

    def _show_lines(self) -> None:
        shown: Sequence[str] = ()
        while True:
            ending = self._closing.wait(LINE_SECONDS)
            tasks = None if ending else self._tasks()
            with self._histories.reading() as queries:
                lines = [line(query) for query in queries]
            if tasks is not None:
                lines.append(task_count(tasks))
            for text in lines:
                # Unchanged lines are not repeated.
                if text not in shown:
                    print(text, file=self._stream, flush=True)
            shown = lines
            if ending:
                return


def cells(query: QueryHistory) -> list[str]:
    """Return the cells of a query's row, in the order of COLUMNS."""
    last = query.last
    status = query.name if query.status == "running" else f"{query.name} ({query.status})"
    if last is None:
        return [status, "", "0", "", "", "", ""]
    return [
        status,
        str(last.batch_id),
        f"{query.rows:,}",
        f"{last.rows_per_second:,.0f}",
        f"{sum(query.behind.values()):,}" if query.behind else "",
        "" if query.state is None else f"{query.state.rows:,}",
        f"{last.milliseconds / 1000:.1f} s",
    ]


def line(query: QueryHistory) -> str:
    """Return a line of text with the values of a query's row."""
    row = dict(zip(COLUMNS, cells(query), strict=True))
    parts = [f"{row['query']}: batch {row['batch'] or '-'}", f"{row['rows']} rows"]
    if query.last is not None:
        parts += [f"{row['rows/s']} rows/s", f"took {row['took']}"]
    parts += [f"{row['behind']} behind"] if row["behind"] else []
    parts += [f"{row['state']} rows of state"] if row["state"] else []
    return ", ".join(parts)


def task_count(tasks: tuple[int, int] | None) -> str:
    """Return the task counts as text; empty for None."""
    return "" if tasks is None else f"tasks {tasks[0]:,} of {tasks[1]:,}"
