"""A pytest plugin that counts the lines of the library that tests run: `-p tests.covered -p tests.forked --forks 6`.

The command of slipcover lets each forked process report all lines of the source, which takes seconds at its end, and
rewrites functions whose lines have been counted, which saves less than it takes here. So this plugin uses its classes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import slipcover

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = [str(ROOT / "src" / name) for name in ("ottla", "ottla_registry")]
FLOOR: Final = 85
"""Minimum share of lines in percent."""
NEVER: Final = 1 << 30
"""A number of counted lines after which slipcover would rewrite functions."""

COVERAGE: Final = slipcover.Slipcover(source=SOURCES, d_miss_threshold=NEVER)
SUMMARY: Final = pytest.StashKey[dict[str, Any]]()


def pytest_addoption() -> None:
    """Begin to count: now, as pytest loads the plugins of packages, of which Ottla is one, before all other hooks."""
    matcher = slipcover.FileMatcher(sources=SOURCES)
    slipcover.wrap_pytest(COVERAGE, matcher)  # it compiles the modules of such packages itself, for its asserts
    slipcover.ImportManager(COVERAGE, matcher).__enter__()


def pytest_forked_process_started() -> None:
    """Forget the lines that the parent process has counted."""
    COVERAGE.newly_seen.clear()


def pytest_forked_process_result() -> dict[str, set[int]]:
    """Return the lines that this forked process has run, by file."""
    return dict(COVERAGE.newly_seen)


def pytest_forked_process_ended(result: Any) -> None:
    """Add the lines of a forked process."""
    for path, lines in result.items():
        COVERAGE.newly_seen[path].update(lines)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let the run fail if it has covered less than the floor."""
    summary = COVERAGE.get_coverage()["summary"]
    session.config.stash[SUMMARY] = summary
    if session.exitstatus == pytest.ExitCode.OK and summary["percent_covered"] < FLOOR:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the share of covered lines."""
    summary = config.stash[SUMMARY]
    covered = summary["covered_lines"]
    lines = covered + summary["missing_lines"]
    terminalreporter.write_line(
        f"Lines covered: {covered:,} of {lines:,}, {summary['percent_covered']:.1f} % (at least {FLOOR} %)"
    )
