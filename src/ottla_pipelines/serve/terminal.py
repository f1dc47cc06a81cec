"""Output of a report on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from ottla.spark.report.report import Report, TableData

if TYPE_CHECKING:
    from rich.console import Console


def show(report: Report, console: Console) -> None:
    """Print the first two tables, the findings and the rates of a report. The page also has the other tables; the
    comparison with the input is printed separately.
    """
    console.print()
    console.rule(f"[bold]{report.title}")
    for table in report.tables[:2]:
        console.print(rich_table(table))
    for sentence in report.findings:
        console.print(f"• {sentence}", highlight=False)
    console.print()
    for label, value in report.rates:
        console.print(f"{label:<12} {value}", highlight=False)


def rich_table(data: TableData) -> Table:
    """Return the data as a table of rich."""
    table = Table(title=data.title, title_justify="left", title_style="bold")
    for i, column in enumerate(data.columns):
        table.add_column(column, justify="right" if i else "left")
    for row in data.rows:
        table.add_row(*row)
    return table
