"""An object store in memory, which all brokers of a simulation share. Some requests fail before, during or after their
execution, and the whole store may be unavailable.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.remote_log.remote_storage import RemoteObjectMissingError, RemoteStorageError

FAILURES: Final = 0.03
"""The share of requests that fail at random: half of them before they are executed."""


class ObjectStore:
    """The objects by name, and the failures of requests."""

    def __init__(self, rng: random.Random) -> None:
        self.objects: dict[str, bytes] = {}
        self.is_down = False
        self.is_reliable = False
        """Whether requests no longer fail at random, because the run is being checked."""
        self.requests = 0
        self._rng = rng

    def fails(self) -> bool:
        """Count a request, and return whether it is to fail during or after its execution. Raises RemoteStorageError if
        it fails before.
        """
        self.requests += 1
        chance = 1.0 if self.is_reliable else self._rng.random()
        if self.is_down or chance < FAILURES / 2:
            raise RemoteStorageError("simulated failure")
        return chance < FAILURES


class SimulatedStorage:
    """One broker's access to the store. Implements RemoteStorage. A deletion that fails may have deleted up to
    two objects.
    """

    store: ObjectStore

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        pass

    def put(self, name: str, content: Path | bytes) -> None:
        fails = self.store.fails()
        try:
            self.store.objects[name] = content if isinstance(content, bytes) else content.read_bytes()
        except FileNotFoundError:
            raise RemoteStorageError(f"{content!s} was deleted before it was copied") from None
        self._fail_if(fails)

    def get(self, name: str) -> bytes:
        fails = self.store.fails()
        data = self.store.objects.get(name)
        if data is None:
            raise RemoteObjectMissingError(f"{name} is missing")
        self._fail_if(fails)
        return data

    def get_range(self, name: str, start: int, length: int) -> bytes:
        return self.get(name)[start : start + length]

    def delete(self, names: Sequence[str]) -> None:
        fails = self.store.fails()
        for name in names[: 2 if fails else None]:
            self.store.objects.pop(name, None)
        self._fail_if(fails)

    @staticmethod
    def _fail_if(fails: bool) -> None:
        if fails:
            raise RemoteStorageError("simulated failure after the request was executed")
