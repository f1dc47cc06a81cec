"""The election of the controller: the broker that creates `/controller` is the controller until the znode is deleted.

The znode is deleted at the latest when the broker's session ends. The transaction that creates it also increments
`/controller_epoch`. When a controller changes topics, partitions or features, the write checks that epoch
(`ControllerTerm.fencing_check`), so a former controller that continues after a pause cannot change them.
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
from ottla.logs import limit_repeated_errors

log = logging.getLogger("ottla.controller")
failures_log = logging.getLogger("ottla.controller.failures")
limit_repeated_errors(failures_log)  # while the store is unreachable, every retry fails in the same way

RETRY_SECONDS: Final = 0.1
"""Delay in seconds before the next attempt after an error."""


ELECTION: Final = "Controller election"


class ControllerTerm(NamedTuple):
    """One controller term: its epoch, and the znode version to check it with."""

    epoch: int
    epoch_version: int
    """The version of the znode with the epoch."""

    def fencing_check(self) -> Check:
        """Return the check with which `write_fenced` starts each transaction. It fails if a later term has begun."""
        return Check(znodes.CONTROLLER_EPOCH, self.epoch_version)


class ControllerElection:
    """Takes part in controller elections until closed.

    Calls `begin` when this broker is elected, and `end` when its term has ended.
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
        self._attempt = ELECTION
        """The step that the task has reached, for log lines."""

    async def start(self) -> None:
        """Start to take part in elections.

        Return when there is a controller and, if it is this broker, its term has started.
        """
        self._task = asyncio.get_running_loop().create_task(self._run())
        decided = asyncio.ensure_future(self._decided.wait())
        await asyncio.wait([decided, self._task], return_when=asyncio.FIRST_COMPLETED)
        decided.cancel()
        if self._task.done():
            self._task.result()

    async def close(self) -> None:
        """Stop taking part in elections.

        If this broker is the controller, it ends its term. Another broker can be elected once the session has ended.
        """
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            try:
                await self._run_term()
            except (MetadataStoreError, NotControllerError) as error:
                failures_log.warning(
                    "%s failed; taking part in the next election in %g s: %s", self._attempt, RETRY_SECONDS, error
                )
                await asyncio.sleep(RETRY_SECONDS)
            except Exception:
                if not self._decided.is_set():
                    raise  # during the broker's start, the caller of `start` gets the error
                log.exception("%s failed; taking part in the next election in %g s", self._attempt, RETRY_SECONDS)
                await asyncio.sleep(RETRY_SECONDS)

    async def _run_term(self) -> None:
        self._attempt = ELECTION
        deleted = asyncio.Event()
        node = await self._store.get(znodes.CONTROLLER, deleted.set)
        if node is not None and self._decided.is_set() and _is_malformed(node):
            log.error(
                "Malformed znode %s: %.200r. Delete it, so that a controller is elected", znodes.CONTROLLER, node.value
            )
            await deleted.wait()
            return
        term = await self._try_elect() if node is None else None
        if node is None and term is None:
            pass  # another broker was elected: the next call follows its term
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
        self._attempt = f"Term of broker {self._broker_id} as controller (epoch={term.epoch})"
        log.info("Elected broker %d as controller: epoch=%d", self._broker_id, term.epoch)
        try:
            await self._start_term(term)
            self._decided.set()
            await self._wait_deleted(node.created)
        finally:
            log.info("Broker %d is no longer the controller: epoch=%d", self._broker_id, term.epoch)
            await self._end_term()

    async def _delete_stale_znode(self) -> None:
        """Delete a `/controller` znode of this broker that has no term, because the term could not start, or the
        response to its creation was lost.

        The znode would prevent other terms until the session ends.
        """
        epoch = await self._store.get(znodes.CONTROLLER_EPOCH)
        node = await self._store.get(znodes.CONTROLLER)
        if epoch is None or node is None or _owner(node) != self._broker_id:
            return
        try:
            await self._store.multi([Check(znodes.CONTROLLER_EPOCH, epoch.version), Delete(znodes.CONTROLLER)])
        except (BadVersionError, NoNodeError):
            pass  # another broker has deleted it

    async def _wait_deleted(self, created: int) -> None:
        """Wait until the `/controller` znode that has this `ZNode.created` is deleted.

        Lost connections and restarts of ZooKeeper do not end the wait.
        """
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
        """Create `/controller` and increment the epoch. Return None if another broker was elected first."""
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


def _is_malformed(node: ZNode) -> bool:
    try:
        _owner(node)
    except (ValueError, LookupError, TypeError):
        return True
    return False


def _next_term(node: ZNode | None) -> ControllerTerm:
    return ControllerTerm(1, 0) if node is None else ControllerTerm(int(node.value) + 1, node.version + 1)
