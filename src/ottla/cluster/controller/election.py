"""Who is the controller: the broker that made `/controller`, for as long as its session lives.

Whoever wins raises `/controller_epoch` in the same step. Every write of a controller is void once that has gone on
(`ControllerTerm.guard`), so one that was paused and comes back changes nothing. Loop thread.
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
    Node,
    NodeExistsError,
    NoNodeError,
    Set,
)
from ottla.errors import NotControllerError

log = logging.getLogger("ottla.cluster")

RETRY_SECONDS: Final = 0.1
"""The pause after the store could not be asked."""


class ControllerTerm(NamedTuple):
    """A term as controller."""

    epoch: int
    epoch_version: int
    """Of the node that the epoch is in."""

    def fencing_check(self) -> Check:
        """What every write of this term begins with."""
        return Check(znodes.CONTROLLER_EPOCH, self.epoch_version)


class ControllerElection:
    """Takes part until it is closed: `begin` is called with each term that is won, `end` when it is over."""

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
        """Take part; returns when it is known who the controller is, and if it is this broker, when it has begun."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        decided = asyncio.ensure_future(self._decided.wait())
        await asyncio.wait([decided, self._task], return_when=asyncio.FIRST_COMPLETED)
        decided.cancel()
        if self._task.done():
            self._task.result()

    async def close(self) -> None:
        """Take part no more. A term that is under way ends with the session."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            try:
                await self._run_term()
            except (MetadataStoreError, NotControllerError) as error:
                log.warning("the controller cannot be elected now: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
            except Exception:
                if not self._decided.is_set():
                    raise  # at the start it is told to whoever starts the broker
                log.exception("the election of the controller failed")
                await asyncio.sleep(RETRY_SECONDS)

    async def _run_term(self) -> None:
        """One term, of this broker or of another, from its begin to its end."""
        deleted = asyncio.Event()
        node = await self._store.get(znodes.CONTROLLER, deleted.set)
        term = await self._try_elect() if node is None else None
        if node is None and term is None:
            pass  # another was faster: the next round is its term
        elif term is not None:
            await self._lead(term)
        elif node is not None and _owner(node) == self._broker_id:
            await self._delete_stale_znode()
        elif node is not None:
            await self._publish(_owner(node))
            self._decided.set()
            await deleted.wait()

    async def _lead(self, term: ControllerTerm) -> None:
        """A term of this broker."""
        node = await self._store.get(znodes.CONTROLLER)
        if node is None or _owner(node) != self._broker_id:
            return  # the session has ended already
        log.info("this broker is the controller, in epoch %d", term.epoch)
        try:
            await self._start_term(term)
            self._decided.set()
            await self._wait_deleted(node.created)
        finally:
            log.info("this broker is not the controller any more")
            await self._end_term()

    async def _delete_stale_znode(self) -> None:
        """Remove a node of this broker that no term goes with: it could not begin, or the node's making was in doubt.

        Left there, it would keep all others from term for as long as the session lives.
        """
        epoch = await self._store.get(znodes.CONTROLLER_EPOCH)
        node = await self._store.get(znodes.CONTROLLER)
        if epoch is None or node is None or _owner(node) != self._broker_id:
            return
        try:
            await self._store.multi([Check(znodes.CONTROLLER_EPOCH, epoch.version), Delete(znodes.CONTROLLER)])
        except (BadVersionError, NoNodeError):
            pass  # it went by itself

    async def _wait_deleted(self, created: int) -> None:
        """Wait until our node is gone. It outlives lost connections, and a ZooKeeper that is away for a while."""
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
        """Make the node and raise the epoch; None where another was faster."""
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


def _owner(node: Node) -> int:
    """The broker that made the node."""
    return int(znodes.load(node.value)["brokerid"])


def _next_term(node: Node | None) -> ControllerTerm:
    return ControllerTerm(1, 0) if node is None else ControllerTerm(int(node.value) + 1, node.version + 1)
