"""Instruction counts of the compiled paths, from valgrind's cachegrind, and their budgets.

    python -m tests.instructions.counts            print the counts of this toolchain beside their budgets
    python -m tests.instructions.counts --write    write them as the new budgets

Counts are reproducible, unlike times, but depend on Python, its build and the compiler: `budgets.json` has a set for
each toolchain. Instructions of Python's allocator to free an object are left out: they depend on the address of the
object's arena, and therefore on the machine (up to 4 % of a path). Hardware counters (perf_event_open) would work as
well, but virtual machines rarely have them.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ottla.records import COMPILED, builder

FOLDER = Path(__file__).parent
BUDGETS = FOLDER / "budgets.json"
TOLERANCE = 1.03
SECONDS = 120
LEFT_OUT = frozenset({"_PyObject_Free"})


def toolchain() -> str:
    """Return the toolchain of the counts: the Python version, and the compilers of Python and of the extensions."""
    comment = re.search(rb"(GCC: \([^)]*\)|clang version) ([\d.]+)", Path(builder.__file__).read_bytes())
    compiler = comment[0].decode() if comment else "unknown compiler"
    return f"{platform.python_version()}, {platform.python_compiler()}, {platform.machine()}, {compiler}"


def missing() -> str | None:
    """Return why instructions cannot be counted, or None."""
    if not COMPILED:
        return "the hot path is not compiled"
    if shutil.which("valgrind") is None:
        return "valgrind is not installed (apt-get install valgrind)"
    return None


def budgets() -> dict[str, dict[str, int]]:
    """Return the budgets of every toolchain: instructions per record of each path."""
    result: dict[str, dict[str, int]] = json.loads(BUDGETS.read_text())
    return result


def instructions(profile: str) -> int:
    """Return the instructions of a cachegrind profile, without those of functions that are left out."""
    total, function = 0, ""
    for line in profile.splitlines():
        if line.startswith("fn="):
            function = line[3:]
        elif line[:1].isdigit() and function not in LEFT_OUT:
            total += int(line.split()[1])
    assert total, "an empty profile"
    return total


def measure() -> dict[str, int]:
    """Return the instructions per record of each path, Python's part included."""
    with tempfile.TemporaryDirectory() as directory:
        tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={directory}/%p"]
        done = subprocess.run(
            [*tool, sys.executable, str(FOLDER / "paths.py")],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        counts: dict[str, list[tuple[int, int]]] = {}
        for line in done.stdout.splitlines():
            path, records, pid = line.split()
            counts.setdefault(path, []).append((int(records), instructions((Path(directory) / pid).read_text())))
    return {path: round((b[1] - a[1]) / (b[0] - a[0])) for path, (a, b) in counts.items()}


def main() -> None:
    """Print the counts, or write the budgets."""
    counts, stored = measure(), budgets() if BUDGETS.exists() else {}
    own = stored.get(toolchain(), {})
    print(toolchain())
    for path, count in counts.items():
        print(f"{path:16}{count:>8}{own.get(path, ''):>8}")
    if "--write" in sys.argv:
        BUDGETS.write_text(json.dumps({**stored, toolchain(): counts}, indent=1) + "\n")


if __name__ == "__main__":
    main()
