"""The unavailability due to a fault: the longest time in which no record of a partition was acknowledged."""

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
class FaultImpact:
    """One fault and its impact. Times are seconds since the start of the load."""

    kind: str
    broker: int
    seconds: float
    controller: int
    leaders: dict[int, int]
    began: float
    repaired: float
    healthy: float
    """The time at which all replicas were in sync again."""
    gaps: dict[int, float]
    """Partition → the longest time without an acknowledged record, from the fault until the cluster was healthy."""

    @property
    def longest(self) -> float:
        return max(self.gaps.values())


def gaps(acks: Iterable[Ack], began: float, ended: float, partitions: int) -> dict[int, float]:
    """Return for each partition the longest time between two responses that overlaps the window. The window's ends
    count as responses only if there are none beyond."""
    times: dict[int, list[float]] = {partition: [] for partition in range(partitions)}
    for at, sent, _ in acks:
        times[sent.partition].append(at)
    return {partition: _longest(sorted(of), began, ended) for partition, of in times.items()}


def _longest(times: Sequence[float], began: float, ended: float) -> float:
    before = max((at for at in times if at <= began), default=began)
    after = min((at for at in times if at >= ended), default=ended)
    inside = [before, *(at for at in times if began < at < ended), after]
    return max(later - earlier for earlier, later in pairwise(inside))


def save(path: Path, result: Mapping[str, Any], impacts: Sequence[FaultImpact]) -> None:
    """Write the result of a run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**result, "faults": [asdict(one) for one in impacts]}, indent=1))


def load(directory: Path) -> list[dict[str, Any]]:
    """Return all results in a directory."""
    return [json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))]


def table(impacts: Iterable[FaultImpact]) -> list[str]:
    """Return lines for a terminal: kind, count, median and maximum of the longest gap, time until all were in sync."""
    by_kind: dict[str, list[FaultImpact]] = defaultdict(list)
    for one in impacts:
        by_kind[one.kind].append(one)
    lines = [f"{'fault':<16}{'times':>6}{'median s':>10}{'longest s':>11}{'in sync s':>11}"]
    for kind, of in sorted(by_kind.items()):
        longest = [one.longest for one in of]
        healthy = max(one.healthy - one.repaired for one in of)
        lines.append(f"{kind:<16}{len(of):>6}{median(longest):>10.2f}{max(longest):>11.2f}{healthy:>11.2f}")
    return lines
