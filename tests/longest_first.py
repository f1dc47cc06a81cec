"""A pytest plugin that runs the files that take longest first, so that workers finish at about the same time.

Use it with `-p tests.longest_first --dist loadfile --no-loadscope-reorder`, or before `-p tests.forked`. Its table of
durations is renewed by `scripts/test.sh --write-durations`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

TABLE = Path(__file__).parent / "durations.json"
MIN_SECONDS = 5
"""Faster files are not in the table; they run at the end, in any order."""

_seconds: defaultdict[str, float] = defaultdict(float)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-durations", action="store_true", help=f"write the measured durations to {TABLE.name}")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    durations: dict[str, int] = json.loads(TABLE.read_text())
    items.sort(key=lambda item: -durations.get(_file(item.nodeid), 0))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[_file(report.nodeid)] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.option.write_durations and not hasattr(session.config, "workerinput"):
        measured = {file: round(seconds) for file, seconds in _seconds.items() if seconds >= MIN_SECONDS}
        others = {file: seconds for file, seconds in json.loads(TABLE.read_text()).items() if file not in _seconds}
        rows = (others | measured).items()
        durations = {file: seconds for file, seconds in sorted(rows, key=lambda row: -row[1]) if Path(file).exists()}
        TABLE.write_text(json.dumps(durations, indent=2) + "\n")


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]
