"""The Python code of docs/tutorial.md and docs/index.md runs."""

from __future__ import annotations

from tests.unit.docs.code_blocks import DOCS, run_blocks

namespace: dict[str, object] = {}


def test_tutorial_code_runs() -> None:
    run_blocks(DOCS / "tutorial.md", namespace)
    assert "test_visits_are_counted" in namespace


def test_home_page_code_runs() -> None:
    run_blocks(DOCS / "index.md", {})
