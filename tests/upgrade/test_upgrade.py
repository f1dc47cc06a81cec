"""A data directory works after an upgrade from an earlier version, and after a downgrade to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.upgrade.earlier_version import ROOT, source_of_earlier_version

PROGRAM = Path(__file__).with_name("program.py")


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return source_of_earlier_version(tmp_path_factory.mktemp("earlier"))


def run(source: Path, *arguments: object) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout else None


def test_data_directory_works_after_upgrade_and_downgrade(earlier: Path, tmp_path: Path) -> None:
    this, data = ROOT / "src", tmp_path / "data"
    run(earlier, "write", data, 0)
    before = run(earlier, "read", data)
    assert before["visits"] == ["0.0", "0.1", "0.2", "0.3", "0.4", "0 committed"]
    assert (before["committed"], before["open"], before["users"]) == (3, "Ongoing", ["u0"])
    assert run(this, "read", data) == before
    run(this, "write", data, 1)
    upgraded = run(this, "read", data)
    assert upgraded["visits"] == [*before["visits"], "1.0", "1.1", "1.2", "1.3", "1.4", "1 committed"]
    assert (upgraded["committed"], upgraded["acls"]) == (6, ["t0", "t1"])
    assert run(earlier, "read", data) == upgraded
    run(earlier, "write", data, 2)
    assert run(this, "read", data) == run(earlier, "read", data)
