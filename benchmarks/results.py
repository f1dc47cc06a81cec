"""Figures in memory, on the terminal, in JSON with machine, versions and commit, and in the history.

A suite has parts, which may be measured in separate runs: the figures of a part replace those of its last run in
`results/<suite>.json`. Each figure has the values of all contestants, one per repeat, all from one run.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "results"
HISTORY = Path(__file__).parent / "history.jsonl"
PACKAGES = ("confluent-kafka", "kafka-python", "aiokafka", "pyspark", "pyarrow", "cramjam")


class Figure(NamedTuple):
    """A quantity, and its values of each contestant, one per repeat."""

    name: str
    unit: str
    more_is_better: bool
    values: dict[str, list[float]]

    def median(self, contestant: str) -> float:
        """Return the median over the repeats."""
        return statistics.median(self.values[contestant])

    def ratios(self, contestant: str, peer: str) -> list[float]:
        """Return contestant : peer of each repeat, sorted."""
        pairs = zip(self.values[contestant], self.values[peer], strict=True)
        return sorted(own / other for own, other in pairs if other)


class Part(NamedTuple):
    """The figures of one run of a part, with commit, command and machine."""

    stamp: dict[str, Any]
    figures: list[Figure]


def print_pair(figure: Figure, own: str, peer: str) -> None:
    """Print a line: both medians, and the median of the ratios with their minimum and maximum."""
    ratios = figure.ratios(own, peer)
    spread = f"[{ratios[0]:.3f} … {ratios[-1]:.3f}]" if len(ratios) > 1 else ""
    ratio = f"{statistics.median(ratios):>7.3f}" if ratios else f"{'':7}"
    better = "↑" if figure.more_is_better else "↓"
    print(
        f"{figure.name:<58} {figure.median(own):>10.2f} {figure.median(peer):>10.2f} {figure.unit:<10} {ratio}"
        f" {better} {spread}",
        flush=True,
    )


def stamp() -> dict[str, Any]:
    """Return commit, date, command, machine and versions of this run."""
    return {
        "commit": _git("rev-parse", "--short=10", "HEAD") + ("+" if _git("status", "--porcelain", "src") else ""),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "command": " ".join(["python -m benchmarks", *sys.argv[1:]]),
        "machine": machine(),
        "versions": {"python": platform.python_version(), **_versions()},
    }


def machine() -> dict[str, Any]:
    """Return processor, memory and Python version of this machine."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), ""
    )
    memory = next((line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), "0")
    return {
        "cpu": model or platform.processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(int(memory) / 1e6),
        "system": f"{platform.system()} {platform.release()}",
    }


def save(suite: str, parts: dict[str, list[Figure]], ratios_of: Sequence[tuple[str, str]]) -> Path:
    """Write the parts to the results of their suite, and their ratios to the history; return the file."""
    path = FOLDER / f"{suite}.json"
    path.parent.mkdir(exist_ok=True)
    before = load(suite)
    here = stamp()
    after = {**before, **{name: Part(here, figures) for name, figures in parts.items()}}
    document = {name: {"stamp": p.stamp, "figures": [f._asdict() for f in p.figures]} for name, p in after.items()}
    path.write_text(json.dumps(document, indent=1) + "\n")
    with HISTORY.open("a") as history:
        for name, figures in parts.items():
            row = {
                "suite": suite,
                "part": name,
                "commit": here["commit"],
                "date": here["date"],
                "cores": here["machine"]["cores"],
                "ratios": _median_ratios(figures, ratios_of),
            }
            history.write(json.dumps(row, ensure_ascii=False) + "\n")
    return path


def _median_ratios(figures: list[Figure], pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    result = {}
    for figure in figures:
        for own, peer in pairs:
            if own in figure.values and peer in figure.values and (ratios := figure.ratios(own, peer)):
                name = figure.name if len(pairs) == 1 else f"{figure.name}, {own} : {peer}"
                result[name] = round(statistics.median(ratios), 3)
    return result


def load(suite: str) -> dict[str, Part]:
    """Return the saved parts of a suite."""
    path = FOLDER / f"{suite}.json"
    if not path.exists():
        return {}
    document = json.loads(path.read_text())
    return {name: Part(p["stamp"], [Figure(**f) for f in p["figures"]]) for name, p in document.items()}


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=Path(__file__).parent.parent)
    return done.stdout.strip()


def _versions() -> dict[str, str]:
    result = {}
    for name in PACKAGES:
        try:
            result[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return result
