"""The package is typed for users: it has `py.typed`, and mypy --strict checks a program with all clients."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.typing.mistakes import MISTAKES

import ottla

PROGRAM = Path(__file__).parent / "program.py"


def test_package_has_a_py_typed_file() -> None:
    assert (Path(ottla.__file__).parent / "py.typed").exists()


def run_mypy(program: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    options = ("--strict", "--config-file=", f"--cache-dir={cache}", "--follow-imports=silent")
    return subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(program)], capture_output=True, text=True, timeout=300
    )


def test_mypy_accepts_a_users_program_and_rejects_wrong_options(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    pytest.importorskip("mypy")
    # With `-p no:cacheprovider`, the attribute does not exist.
    plugin = getattr(pytestconfig, "cache", None)
    cache = plugin.mkdir("mypy-of-users") if plugin else tmp_path
    result = run_mypy(PROGRAM, cache)
    assert result.returncode == 0, result.stdout
    invalid_program = tmp_path / "wrong.py"
    invalid_program.write_text(PROGRAM.read_text().replace("admin.list_topics()", "admin.list_topics(timeout=1)"))
    assert 'Unexpected keyword argument "timeout"' in run_mypy(invalid_program, cache).stdout
    invalid_program.write_text(MISTAKES)
    errors = run_mypy(invalid_program, cache).stdout
    assert 'Argument "linger_ms" to "KafkaProducer" has incompatible type "str"; expected "float"' in errors
    assert 'Unexpected keyword argument "foo" for "KafkaProducer"' in errors
    assert 'Unexpected keyword argument "group" for "KafkaConsumer"' in errors
    assert 'Unexpected keyword argument "ack" for "__call__" of "ProducerFactory"' in errors
    assert 'Unexpected keyword argument "offset" for "on" of "Faults"' in errors
