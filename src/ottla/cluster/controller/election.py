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

    def guard(self) -> Check:
        """What every write of this term begins with."""
        return Check(znodes.CONTROLLER_EPOCH, self.epoch_version)


class ControllerElection:
    """Takes part until it is closed: `begin` is called with each term that is won, `end` when it is over."""

    def __init__(
        self,
        store: MetadataStore,
        view: MetadataCache,
        broker_id: int,
        begin: Callable[[ControllerTerm], Awaitable[None]],
        end: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._view = view
        self._broker_id = broker_id
        self._begin = begin
        self._end = end
        self._decided = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take part; returns when it is known who the controller is, and if it is this broker, when it has begun."""
        self._task = asyncio.get_running_loop().create_task(self._take_part())
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

    async def _take_part(self) -> None:
        while True:
            try:
                await self._round()
            except (MetadataStoreError, NotControllerError) as error:
                log.warning("the controller cannot be elected now: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
            except Exception:
                if not self._decided.is_set():
                    raise  # at the start it is told to whoever starts the broker
                log.exception("the election of the controller failed")
                await asyncio.sleep(RETRY_SECONDS)

    async def _round(self) -> None:
        """One term, of this broker or of another, from its begin to its end."""
        gone = asyncio.Event()
        node = await self._store.get(znodes.CONTROLLER, gone.set)
        office = await self._stand() if node is None else None
        if node is None and office is None:
            pass  # another was faster: the next round is its term
        elif office is not None:
            await self._serve(office)
        elif node is not None and _winner(node) == self._broker_id:
            await self._take_away()
        elif node is not None:
            await self._show(_winner(node))
            self._decided.set()
            await gone.wait()

    async def _serve(self, office: ControllerTerm) -> None:
        """A term of this broker."""
        node = await self._store.get(znodes.CONTROLLER)
        if node is None or _winner(node) != self._broker_id:
            return  # the session has ended already
        log.info("this broker is the controller, in epoch %d", office.epoch)
        try:
            await self._begin(office)
            self._decided.set()
            await self._until_gone(node.created)
        finally:
            log.info("this broker is not the controller any more")
            await self._end()

    async def _take_away(self) -> None:
        """Remove a node of this broker that no term goes with: it could not begin, or the node's making was in doubt.

        Left there, it would keep all others from office for as long as the session lives.
        """
        epoch = await self._store.get(znodes.CONTROLLER_EPOCH)
        node = await self._store.get(znodes.CONTROLLER)
        if epoch is None or node is None or _winner(node) != self._broker_id:
            return
        try:
            await self._store.multi([Check(znodes.CONTROLLER_EPOCH, epoch.version), Delete(znodes.CONTROLLER)])
        except (BadVersionError, NoNodeError):
            pass  # it went by itself

    async def _until_gone(self, created: int) -> None:
        """Wait until our node is gone. It outlives lost connections, and a ZooKeeper that is away for a while."""
        while True:
            news = asyncio.Event()
            try:
                node = await self._store.get(znodes.CONTROLLER, news.set)
            except MetadataStoreError:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if node is None or node.created != created:
                return
            await news.wait()

    async def _stand(self) -> ControllerTerm | None:
        """Make the node and raise the epoch; None where another was faster."""
        node = await self._store.get(znodes.CONTROLLER_EPOCH)
        office = _next_office(node)
        value = znodes.dump(
            {"version": 2, "brokerid": self._broker_id, "timestamp": znodes.now(), "kraftControllerEpoch": -1}
        )
        raised = (
            Create(znodes.CONTROLLER_EPOCH, b"%d" % office.epoch)
            if node is None
            else Set(znodes.CONTROLLER_EPOCH, b"%d" % office.epoch, node.version)
        )
        try:
            await self._store.multi([Create(znodes.CONTROLLER, value, ephemeral=True), raised])
        except (NodeExistsError, BadVersionError):
            return None
        return office

    async def _show(self, controller_id: int) -> None:
        await self._view.change(
            lambda image: image if image.controller_id == controller_id else replace(image, controller_id=controller_id)
        )


def _winner(node: Node) -> int:
    """The broker that made the node."""
    return int(znodes.load(node.value)["brokerid"])


def _next_office(node: Node | None) -> ControllerTerm:
    return ControllerTerm(1, 0) if node is None else ControllerTerm(int(node.value) + 1, node.version + 1)
