"""The partition states that controllers write to the metadata store: epochs must not decrease, and leaders must come
from the ISR, unless the topic allows unclean leader election.

Every state is compared with the previous state of its partition when it is written. So a violation is reported at the
moment of the write: a write by a former controller, for example, or an election that loses acknowledged records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.cluster.store.znodes import CONTROLLER_EPOCH

STATE: Final = re.compile(r"/brokers/topics/(?P<topic>[^/]+)/partitions/(?P<partition>\d+)/state$")


class WrittenState(NamedTuple):
    """A partition's state in the metadata store, at `/brokers/topics/TOPIC/partitions/N/state`."""

    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]

    @classmethod
    def parse(cls, value: bytes) -> WrittenState:
        """Parse the content of a partition state's znode."""
        state = json.loads(value)
        return cls(state["controller_epoch"], state["leader"], state["leader_epoch"], tuple(state["isr"]))


class PartitionStates:
    """The current state of all partitions, and the violations so far."""

    def __init__(
        self,
        allows_unclean: Callable[[str], bool] = lambda topic: False,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Create an empty record of states. `allows_unclean` returns whether out-of-sync replicas of a topic may become
        leaders; `now` returns the time in seconds.
        """
        self.states: dict[tuple[str, int], WrittenState] = {}
        self.violations: list[str] = []
        self.unclean_elections: list[tuple[float, str]] = []
        """The unclean leader elections: virtual time in seconds, and topic."""
        self._allows_unclean = allows_unclean
        self._now = now
        self.on_state: Callable[[WrittenState | None, WrittenState], object] = lambda before, after: None
        """Called with the previous state of a partition (None for the first one) and with the new state."""
        self._controller_epoch = 0
        """The latest controller epoch."""

    def on_write(self, path: str, value: bytes | None) -> None:
        """Check and store a partition state, or store the controller epoch; ignore writes of other znodes. `value` is
        None if the znode is deleted.
        """
        if path == CONTROLLER_EPOCH and value is not None:
            self._controller_epoch = int(value)
        match = STATE.search(path)
        if match is None:
            return
        key = match["topic"], int(match["partition"])
        if value is None:
            self.states.pop(key, None)
            return
        after = WrittenState.parse(value)
        before = self.states.get(key)
        name = f"{key[0]}-{key[1]}"
        self.violations += [f"{name}: {text}" for text in _own_faults(after)]
        if after.controller_epoch < self._controller_epoch:
            late = f"a controller of epoch {after.controller_epoch} wrote after {self._controller_epoch}"
            self.violations.append(f"{name}: {late}")
        if before is not None:
            unclean = self._allows_unclean(key[0])
            if after.leader not in (*before.isr, -1):
                self.unclean_elections.append((self._now(), key[0]))
            self.violations += [f"{name}: {text}" for text in _faults(before, after, unclean=unclean)]
        self.on_state(before, after)
        self.states[key] = after


def _own_faults(state: WrittenState) -> list[str]:
    if not state.isr:
        return ["the ISR is empty"]
    if state.leader >= 0 and state.leader not in state.isr:
        return [f"leader {state.leader} is not in its ISR {state.isr}"]
    return []


def _faults(before: WrittenState, after: WrittenState, *, unclean: bool) -> list[str]:
    faults = []
    if after.leader_epoch < before.leader_epoch:
        faults.append(f"the leader epoch went back from {before.leader_epoch} to {after.leader_epoch}")
    if after.leader != before.leader and after.leader_epoch <= before.leader_epoch:
        faults.append(f"leader {after.leader} replaced {before.leader} in epoch {after.leader_epoch}")
    if after.leader not in (*before.isr, -1) and not unclean:
        faults.append(f"leader {after.leader} was not in the ISR {before.isr}")
    return faults
