"""`ottla demo`: a year of flights through broker, clients and Spark, with an exact account at the end."""

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

    # argparse prints this name: "invalid positive number value: '0'".
    number.__name__ = "positive number"
    return number


def run(args: argparse.Namespace) -> int:
    """Run the demo, and return 0 if the account is exact."""
    try:
        from ottla_pipelines.demo import run_demo
    except ModuleNotFoundError as error:
        print(f"ottla demo: {error.name} is missing; install it with `pip install 'ottla[demo]'`", file=sys.stderr)
        return 1
    return run_demo(args)


COMMAND = Command(
    run=run,
    options=(
        Flag("--resume", "continue the run that was interrupted in --data"),
        Flag("--keep", "keep the broker's log and Spark's checkpoint at the end"),
        Option("--data DIR", "directory", Path, default=Path("demo-data")),
        Option("--database URL", "database for the statistics: sqlite:///FILE or postgresql://…"),
        Option("--limit N", "only the first N flights", _positive(int)),
        Option("--input FILE", "JSON lines, CSV or an access log in place of flights", Path),
        Option("--by FIELD", "with --input: field to count by"),
        OneOf(
            Option("--seconds S", "spread the replay over S seconds", _positive(float)),
            Option("--rate N", "at most N events per second", _positive(float)),
            required=False,
        ),
    ),
)
