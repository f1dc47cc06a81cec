"""`ottla demo`: a year of flights through broker, clients and Spark, with an exact account at the end."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--resume", action="store_true", help="go on with the run that was interrupted in --data")
    parser.add_argument("--keep", action="store_true", help="keep the broker's log and Spark's checkpoint at the end")
    parser.add_argument("--data", type=Path, default=Path("demo-data"), metavar="DIR", help="default: %(default)s")
    parser.add_argument("--database", metavar="URL", help="where statistics go: sqlite:///FILE or postgresql://…")
    parser.add_argument("--limit", type=_positive(int), metavar="N", help="only the first N flights")
    parser.add_argument(
        "--input", type=Path, metavar="FILE", help="JSON lines, CSV or an access log instead of flights"
    )
    parser.add_argument("--by", metavar="FIELD", help="with --input: the field to count by")
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--seconds", type=_positive(float), metavar="S", help="spread the replay over S seconds")
    pace.add_argument("--rate", type=_positive(float), metavar="N", help="at most N events per second")


Number = TypeVar("Number", int, float)


def _positive(kind: Callable[[str], Number]) -> Callable[[str], Number]:
    def number(text: str) -> Number:
        value = kind(text)
        if not 0 < value < float("inf"):
            raise ValueError
        return value

    # argparse shows it: "invalid positive number value: '0'".
    number.__name__ = "positive number"
    return number


def run(args: argparse.Namespace) -> int:
    """Run the demo; 0 when the account is exact."""
    try:
        from ottla.pipelines.demo import run_demo
    except ModuleNotFoundError as error:
        print(f"ottla demo: {error.name} is missing; install it with `pip install 'ottla[demo]'`", file=sys.stderr)
        return 1
    return run_demo(args)
