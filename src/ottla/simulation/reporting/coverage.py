"""Coverage over many runs: the items that runs have covered, those that none has covered, and plans to cover more."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from ottla.simulation.faults import CALM_SECONDS, KINDS, LOSING, Fault
from ottla.simulation.reporting.recorder import possible
from ottla.simulation.runner import Plan

MUTATED_SHARE: Final = 0.5
"""The share of plans that are derived from earlier ones, once a run has covered something new."""
MAX_PLANS: Final = 200
"""Maximum number of earlier plans to derive new ones from."""


class CoveringPlan(NamedTuple):
    """A plan whose run covered something new, with its faults."""

    plan: Plan
    faults: tuple[Fault, ...]


class Coverage:
    """The items that runs have covered, and the last MAX_PLANS plans that were the first to cover an item."""

    def __init__(self, path: Path | None = None) -> None:
        """Create a coverage. `path` is the coverage file; if it exists, its counts are continued."""
        self._path = path
        self.met: Counter[str] = Counter()
        self._plans: list[CoveringPlan] = []
        if path is not None and path.exists():
            self.met.update(json.loads(path.read_text())["met"])

    def add(self, plan: Plan, items: Iterable[str], faults: Iterable[Fault]) -> list[str]:
        """Add a run, and return those of its items that no earlier run has covered."""
        new = sorted(item for item in items if item not in self.met)
        self.met.update(items)
        if new:
            self._plans = [*self._plans, CoveringPlan(plan, tuple(faults))][-MAX_PLANS:]
        return new

    def never_met(self) -> list[str]:
        return sorted(possible() - self.met.keys())

    def write(self) -> None:
        """Write the coverage file, if there is one: how many runs have covered each item, and the items that none
        has.
        """
        if self._path is not None:
            content = {"met": dict(sorted(self.met.items())), "never met": self.never_met()}
            self._path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def next_plan(self, fresh: Plan) -> Plan:
        """Return the fresh plan, or a variant of an earlier plan whose run covered something new, with the seed of the
        fresh plan as its variation.
        """
        rng = random.Random(f"{fresh.seed} mutation")
        if not self._plans or rng.random() >= MUTATED_SHARE:
            return fresh
        chosen = rng.choice(self._plans)
        return chosen.plan._replace(faults=mutated(chosen.faults, rng), variation=fresh.seed)


def mutated(faults: tuple[Fault, ...], rng: random.Random) -> tuple[Fault, ...]:
    """Return these faults unchanged, or with one of them moved, changed in kind or length, or left out.

    Faults that may lose acknowledged records are not changed, nor is the quiet time around them, which the promises
    require.
    """
    at = rng.randrange(len(faults)) if faults else -1
    if at < 0 or faults[at].kind in LOSING:
        return faults
    fault, others = faults[at], (*faults[:at], *faults[at + 1 :])
    kind = rng.choice([kind for kind in sorted(KINDS) if kind not in LOSING])
    changed = rng.choice([
        fault._replace(at=max(0.1, fault.at + rng.uniform(-5, 5))),
        fault._replace(kind=kind, seconds=rng.uniform(0.05, KINDS[kind].max_seconds)),
        fault._replace(seconds=fault.seconds * rng.uniform(0.2, 3)),
        None,
    ])  # fmt: skip
    if changed is None:
        return others
    return (*others, changed) if all(_are_apart(changed, other) for other in others) else faults


def _are_apart(fault: Fault, other: Fault) -> bool:
    """Return whether a fault is far enough from another one, if that one needs calm time around it."""
    if other.kind not in LOSING:
        return True
    ends = fault.at + fault.seconds
    return ends < other.at - CALM_SECONDS or fault.at > other.at + other.seconds + CALM_SECONDS
