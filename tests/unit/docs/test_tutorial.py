"""The Python of docs/tutorial.md runs, and its test is one."""

from __future__ import annotations

from tests.unit.docs.code_blocks import DOCS, run_blocks

namespace: dict[str, object] = {}


def test_the_tutorial_runs() -> None:
    run_blocks(DOCS / "tutorial.md", namespace)
    assert "test_visits_are_counted" in namespace


def test_the_home_page_runs() -> None:
    run_blocks(DOCS / "index.md", {})
