"""The plugin that runs tests in forked processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests import forked

TESTS = """
import os, warnings
import pytest

PARENT = os.getpid()

@pytest.fixture(scope="session")
def closed():
    yield
    print("closed by", os.getpid())

@pytest.mark.parametrize("number", range(125))
def test_passes(number, tmp_path, closed):
    assert os.getpid() != PARENT
    (tmp_path / "file").write_text("")

def test_fails():
    print("what it printed")
    warnings.warn("it is so and so")
    assert 1 + 1 == 3

@pytest.mark.skip(reason="none")
def test_skips():
    pass
"""


def run_pytest(directory: Path, source: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "tests.forked", "--forks", "3", "test_it.py"]
    command += ["-c", "/dev/null", "--rootdir", str(directory), "--basetemp", str(directory / "temporary")]
    root = Path(forked.__file__).parents[1]
    environ = {"PYTHONPATH": str(root), "PATH": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=directory, env=environ, capture_output=True, text=True, timeout=60)


def test_forked_processes_run_all_tests_and_report_them_together(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, TESTS)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "1 failed, 125 passed, 1 skipped, 1 warning" in result.stdout
    for text in ("assert (1 + 1) == 3", "what it printed", "UserWarning: it is so and so", "test_it.py::test_fails"):
        assert text in result.stdout
    assert len({path.resolve() for path in (tmp_path / "temporary").glob("*/*/file")}) == 125


def test_test_that_ends_its_process_ends_the_run(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, "import os\ndef test_it():\n    os._exit(0)\ndef test_other(): pass\n")
    assert result.returncode == 3
    assert "The process of a test ended: test_it.py::test_it" in result.stdout + result.stderr


def test_chunks_contain_tests_of_one_file() -> None:
    class Item:
        def __init__(self, path: str) -> None:
            self.path = Path(path)

    items = [Item("a")] * 120 + [Item("b")] + [Item("c")] * 50
    chunks = list(forked.chunks(items))  # type: ignore[arg-type]
    assert chunks == [(0, 50), (50, 100), (100, 120), (120, 121), (121, 171)]
