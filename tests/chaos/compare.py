"""Compares the unavailability after each kind of fault between peers: `python -m tests.chaos.compare [RESULTS]`."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.chaos.unavailability import load

THEIRS, OURS = "kafka", "ottla"


class Gap(NamedTuple):
    """The longest unavailability due to a fault, and the duration of the fault, which is random."""

    seconds: float
    fault_seconds: float

    @property
    def past(self) -> float:
        """Return the seconds after the end of the fault; negative if the other brokers had taken over before."""
        return self.seconds - self.fault_seconds


def longest_by_kind(results: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, list[Gap]]]:
    """Return the longest gap of each fault, by kind and peer."""
    collected: dict[str, dict[str, list[Gap]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        for fault in result["faults"]:
            collected[fault["kind"]][result["peer"]].append(Gap(max(fault["gaps"].values()), fault["seconds"]))
    return collected


def table(actual: Mapping[str, Mapping[str, Sequence[Gap]]]) -> Iterator[str]:
    """Yield lines for a terminal; faults with longer gaps on our brokers than on Kafka's are marked.

    "past" is the largest number of seconds after the end of a fault: a longer gap due to a longer fault is not
    worse.
    """
    yield f"{'longest gap':<16}{'Apache Kafka':>34}{'Ottla':>34}"
    yield f"{'':<16}" + f"{'times':>7}{'median s':>9}{'most s':>9}{'past s':>9}" * 2
    for kind, by_peer in sorted(actual.items()):
        theirs, ours = by_peer.get(THEIRS, ()), by_peer.get(OURS, ())
        mark = "  longer" if theirs and ours and _is_longer(ours, theirs) else ""
        yield f"{kind:<16}{_figures(theirs)}{_figures(ours)}{mark}"


def _is_longer(ours: Sequence[Gap], theirs: Sequence[Gap]) -> bool:
    return max(ours).seconds > max(theirs).seconds and _past(ours) > _past(theirs)


def _past(gaps: Sequence[Gap]) -> float:
    return max(gap.past for gap in gaps)


def _figures(gaps: Sequence[Gap]) -> str:
    if not gaps:
        return f"{'-':>7}{'-':>9}{'-':>9}{'-':>9}"
    middle = median(gap.seconds for gap in gaps)
    return f"{len(gaps):>7}{middle:>9.2f}{max(gaps).seconds:>9.2f}{_past(gaps):>9.2f}"


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else "chaos-results")
    print("\n".join(table(longest_by_kind(load(where)))))
