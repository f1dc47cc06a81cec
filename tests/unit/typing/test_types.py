"""The package is typed for its users: `py.typed` is there, and mypy --strict follows a program over all clients."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.typing.mistakes import MISTAKES

import ottla

PROGRAM = Path(__file__).parent / "program.py"


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(ottla.__file__).parent / "py.typed").exists()


def checked(program: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    options = ("--strict", "--config-file=", f"--cache-dir={cache}", "--follow-imports=silent")
    return subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(program)], capture_output=True, text=True, timeout=300
    )


def test_mypy_follows_a_users_program(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    pytest.importorskip("mypy")
    # `-p no:cacheprovider` leaves the attribute out.
    plugin = getattr(pytestconfig, "cache", None)
    cache = plugin.mkdir("mypy-of-users") if plugin else tmp_path
    done = checked(PROGRAM, cache)
    assert done.returncode == 0, done.stdout
    wrong = tmp_path / "wrong.py"
    wrong.write_text(PROGRAM.read_text().replace("admin.list_topics()", "admin.list_topics(timeout=1)"))
    assert 'Unexpected keyword argument "timeout"' in checked(wrong, cache).stdout
    wrong.write_text(MISTAKES)
    errors = checked(wrong, cache).stdout
    assert 'Argument "linger_ms" to "KafkaProducer" has incompatible type "str"; expected "float"' in errors
    assert 'Unexpected keyword argument "foo" for "KafkaProducer"' in errors
    assert 'Unexpected keyword argument "group" for "KafkaConsumer"' in errors
    assert 'Unexpected keyword argument "ack" for "__call__" of "ProducerFactory"' in errors
    assert 'Unexpected keyword argument "offset" for "on" of "Faults"' in errors
