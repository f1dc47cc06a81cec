"""The election of the controller: the broker that has created `/controller`, until its session ends.

The winner raises `/controller_epoch` in the same transaction. Every write of a controller checks that epoch
(`ControllerTerm.fencing_check`), so a controller that was paused and continues changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, NamedTuple

from ottla.cluster.image.metadata_cache import MetadataCache
from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import (
    BadVersionError,
    Check,
    Create,
    Delete,
    MetadataStore,
    MetadataStoreError,
    NodeExistsError,
    NoNodeError,
    Set,
    ZNode,
)
from ottla.errors import NotControllerError

log = logging.getLogger("ottla.controller")

RETRY_SECONDS: Final = 0.1
"""Delay after the metadata store has failed."""


class ControllerTerm(NamedTuple):
    """One term of a controller."""

    epoch: int
    epoch_version: int
    """The version of the znode with the epoch."""

    def fencing_check(self) -> Check:
        """Return the operation that every write of this term starts with."""
        return Check(znodes.CONTROLLER_EPOCH, self.epoch_version)


class ControllerElection:
    """Takes part in elections until it is closed. Calls `begin` when this broker is elected, `end` when its term is
    over.
    """

    def __init__(
        self,
        store: MetadataStore,
        metadata_cache: MetadataCache,
        broker_id: int,
        begin: Callable[[ControllerTerm], Awaitable[None]],
        end: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._cache = metadata_cache
        self._broker_id = broker_id
        self._start_term = begin
        self._end_term = end
        self._decided = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take part in elections. Return when the controller is known and, if it is this broker, its term has
        started.
        """
        self._task = asyncio.get_running_loop().create_task(self._run())
        decided = asyncio.ensure_future(self._decided.wait())
        await asyncio.wait([decided, self._task], return_when=asyncio.FIRST_COMPLETED)
        decided.cancel()
        if self._task.done():
            self._task.result()

    async def close(self) -> None:
        """Take part in no more elections. A current term ends with the session."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            try:
                await self._run_term()
            except (MetadataStoreError, NotControllerError) as error:
                log.warning("Cannot elect the controller; retrying: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
            except Exception:
                if not self._decided.is_set():
                    raise  # when the broker starts, the error is raised to the caller
                log.exception("Cannot elect the controller")
                await asyncio.sleep(RETRY_SECONDS)

    async def _run_term(self) -> None:
        """Run one term, of this broker or another, from start to end."""
        deleted = asyncio.Event()
        node = await self._store.get(znodes.CONTROLLER, deleted.set)
        term = await self._try_elect() if node is None else None
        if node is None and term is None:
            pass  # another broker was faster: the next round is its term
        elif term is not None:
            await self._lead(term)
        elif node is not None and _owner(node) == self._broker_id:
            await self._delete_stale_znode()
        elif node is not None:
            log.info("Broker %d is the controller", _owner(node))
            await self._publish(_owner(node))
            self._decided.set()
            await deleted.wait()

    async def _lead(self, term: ControllerTerm) -> None:
        node = await self._store.get(znodes.CONTROLLER)
        if node is None or _owner(node) != self._broker_id:
            return  # the session has ended already
        log.info("Elected as controller with epoch=%d", term.epoch)
        try:
            await self._start_term(term)
            self._decided.set()
            await self._wait_deleted(node.created)
        finally:
            log.info("Resigned as controller")
            await self._end_term()

    async def _delete_stale_znode(self) -> None:
        """Delete a znode of this broker without a term: the term could not start, or creating the znode was uncertain.

        It would prevent other terms until the session ends.
        """
        epoch = await self._store.get(znodes.CONTROLLER_EPOCH)
        node = await self._store.get(znodes.CONTROLLER)
        if epoch is None or node is None or _owner(node) != self._broker_id:
            return
        try:
            await self._store.multi([Check(znodes.CONTROLLER_EPOCH, epoch.version), Delete(znodes.CONTROLLER)])
        except (BadVersionError, NoNodeError):
            pass  # it was deleted meanwhile

    async def _wait_deleted(self, created: int) -> None:
        """Wait until this broker's znode is deleted. It survives lost connections and restarts of ZooKeeper."""
        while True:
            changed = asyncio.Event()
            try:
                node = await self._store.get(znodes.CONTROLLER, changed.set)
            except MetadataStoreError:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if node is None or node.created != created:
                return
            await changed.wait()

    async def _try_elect(self) -> ControllerTerm | None:
        """Create the znode and raise the epoch. Return None if another broker was faster."""
        node = await self._store.get(znodes.CONTROLLER_EPOCH)
        term = _next_term(node)
        value = znodes.dump(
            {"version": 2, "brokerid": self._broker_id, "timestamp": znodes.now(), "kraftControllerEpoch": -1}
        )
        raised = (
            Create(znodes.CONTROLLER_EPOCH, b"%d" % term.epoch)
            if node is None
            else Set(znodes.CONTROLLER_EPOCH, b"%d" % term.epoch, node.version)
        )
        try:
            await self._store.multi([Create(znodes.CONTROLLER, value, ephemeral=True), raised])
        except (NodeExistsError, BadVersionError):
            return None
        return term

    async def _publish(self, controller_id: int) -> None:
        await self._cache.update(
            lambda image: image if image.controller_id == controller_id else replace(image, controller_id=controller_id)
        )


def _owner(node: ZNode) -> int:
    return int(znodes.load(node.value)["brokerid"])


def _next_term(node: ZNode | None) -> ControllerTerm:
    return ControllerTerm(1, 0) if node is None else ControllerTerm(int(node.value) + 1, node.version + 1)
