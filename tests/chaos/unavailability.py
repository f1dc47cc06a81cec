"""How long a fault was felt: the longest time in which no record of a partition was acknowledged."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from ottla.simulation.history import Ack


@dataclass
class Felt:
    """One fault, and what came of it. Times are seconds since the load began."""

    kind: str
    broker: int
    seconds: float
    controller: int
    leaders: dict[int, int]
    began: float
    repaired: float
    whole: float
    """When all replicas were in sync again."""
    gaps: dict[int, float]
    """Partition → the longest time without an acknowledged record, from the fault on until all was whole."""

    @property
    def longest(self) -> float:
        return max(self.gaps.values())


def gaps(acks: Iterable[Ack], began: float, ended: float, partitions: int) -> dict[int, float]:
    """Per partition, the longest time between two answers, of those that overlap the window; its ends count as answers
    only where there are none beyond."""
    times: dict[int, list[float]] = {partition: [] for partition in range(partitions)}
    for at, sent, _ in acks:
        times[sent.partition].append(at)
    return {partition: _longest(sorted(of), began, ended) for partition, of in times.items()}


def _longest(times: Sequence[float], began: float, ended: float) -> float:
    before = max((at for at in times if at <= began), default=began)
    after = min((at for at in times if at >= ended), default=ended)
    inside = [before, *(at for at in times if began < at < ended), after]
    return max(later - earlier for earlier, later in pairwise(inside))


def save(path: Path, result: Mapping[str, Any], felt: Sequence[Felt]) -> None:
    """Write a run's result."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**result, "faults": [asdict(one) for one in felt]}, indent=1))


def load(directory: Path) -> list[dict[str, Any]]:
    """All results in a directory."""
    return [json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))]


def table(felt: Iterable[Felt]) -> list[str]:
    """Lines for a terminal: kind, how often, median and maximum of the longest gap, and until all was in sync."""
    by_kind: dict[str, list[Felt]] = defaultdict(list)
    for one in felt:
        by_kind[one.kind].append(one)
    lines = [f"{'fault':<16}{'times':>6}{'median s':>10}{'longest s':>11}{'in sync s':>11}"]
    for kind, of in sorted(by_kind.items()):
        longest = [one.longest for one in of]
        whole = max(one.whole - one.repaired for one in of)
        lines.append(f"{kind:<16}{len(of):>6}{median(longest):>10.2f}{max(longest):>11.2f}{whole:>11.2f}")
    return lines
