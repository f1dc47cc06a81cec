"""The plugin that counts the lines that the tests run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import slipcover
from tests import covered


@pytest.mark.parametrize(("lines", "status"), [({1, 2}, pytest.ExitCode.OK), ({1}, pytest.ExitCode.TESTS_FAILED)])
def test_run_that_covers_less_than_the_floor_fails(
    lines: set[int], status: pytest.ExitCode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "module.py"
    source.write_text("a = 1\nb = 2\n")
    monkeypatch.setattr(covered, "COVERAGE", slipcover.Slipcover(source=[str(tmp_path)]))
    covered.pytest_forked_process_ended({str(source): lines})
    session: Any = SimpleNamespace(config=SimpleNamespace(stash=pytest.Stash()), exitstatus=pytest.ExitCode.OK)
    covered.pytest_sessionfinish(session)
    assert session.exitstatus == status
