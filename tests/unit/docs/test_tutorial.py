"""The Python code of docs/tutorial.md and docs/index.md runs, and prints what the tutorial shows."""

from __future__ import annotations

import pytest
from tests.unit.docs.code_blocks import DOCS, outputs, run_blocks

TUTORIAL = DOCS / "tutorial.md"
namespace: dict[str, object] = {}


def test_tutorial_code_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    run_blocks(TUTORIAL, namespace)
    assert capsys.readouterr().out == "".join(output for _, output in outputs(TUTORIAL, "python")) != ""
    assert "test_visits_are_counted" in namespace


def test_home_page_code_runs() -> None:
    run_blocks(DOCS / "index.md", {})
