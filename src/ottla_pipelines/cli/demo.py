"""`ottla demo`: stream a year of flights through a broker and clients into Spark, and check the results row by row."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ottla.cli.framework.command import Command
from ottla.cli.framework.options import Flag, OneOf, Option

Number = TypeVar("Number", int, float)


def _positive(kind: Callable[[str], Number]) -> Callable[[str], Number]:
    def number(text: str) -> Number:
        value = kind(text)
        if not 0 < value < float("inf"):
            raise ValueError
        return value

    # argparse shows this name in its error: "invalid positive number value: '0'".
    number.__name__ = "positive number"
    return number


def run(args: argparse.Namespace) -> int:
    """Run the demo, and return the exit code: 0 if the results are exact, otherwise non-zero."""
    try:
        from ottla_pipelines.demo import run_demo
    except ModuleNotFoundError as error:
        print(f"ottla demo: {error.name} is not installed; run `pip install 'ottla[demo]'`", file=sys.stderr)
        return 1
    return run_demo(args)


COMMAND = Command(
    run=run,
    options=(
        Flag("--resume", "continue the interrupted run in --data"),
        Flag("--keep", "keep the broker's data and Spark's checkpoint after the run"),
        Option(
            "--data DIR",
            "directory for the data of the run; if it is from an earlier run, it is emptied first, unless --resume is "
            "used",
            Path,
            default=Path("demo-data"),
        ),
        Option(
            "--database URL",
            "database for the statistics: sqlite:///FILE or postgresql://… (default: SQLite in --data)",
        ),
        Option(
            "--table-format iceberg|delta|parquet",
            "also write the rows, through a topic, to a table in this format, and check each row of the table",
            choices=("iceberg", "delta", "parquet"),
        ),
        Option(
            "--limit N",
            "process only the first N flights, and the weather up to the last of them; no effect with --input",
            _positive(int),
        ),
        Option(
            "--input FILE", "file to process instead of the flights: JSON lines, CSV or a web server's access log", Path
        ),
        Option("--by FIELD", "field of --input by which events are counted (default: detected)"),
        OneOf(
            Option(
                "--seconds S",
                "send all events evenly over S seconds (default: as fast as possible)",
                _positive(float),
            ),
            Option("--rate N", "send at most N events per second", _positive(float)),
            required=False,
        ),
    ),
)
