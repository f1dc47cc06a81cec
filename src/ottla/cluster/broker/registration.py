"""The registration of this broker, a znode below `/brokers/ids`, and the generation of broker ids.

The znode is ephemeral: it is deleted with the session, and created again with the next one. If the id is registered
already, that may be an earlier run of this broker, so registration waits until its znode is deleted, at most until its
session must have expired. In ZooKeeper, the session is ended at once if the earlier run used the same log directory
(see `stale_session`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from ottla.cluster.image import store_reader
from ottla.cluster.image.cluster_image import BrokerImage
from ottla.cluster.image.metadata_cache import MetadataCache
from ottla.cluster.store import znodes
from ottla.cluster.store.change_notifications import failures_log
from ottla.cluster.store.metadata_store import (
    BadVersionError,
    Create,
    MetadataStore,
    MetadataStoreError,
    NodeExistsError,
    NoNodeError,
    Set,
)
from ottla.errors import StartupError

log = logging.getLogger("ottla.cluster")

SESSION_SLACK_SECONDS: Final = 2.0
"""Additional time in seconds for a session to expire, because ZooKeeper checks sessions only at ticks."""
RETRY_SECONDS: Final = 0.1


class Registration:
    """Creates the znode of this broker, and creates it again after its session has expired. Not thread-safe: event
    loop only.
    """

    def __init__(self, store: MetadataStore, metadata_cache: MetadataCache, session_timeout_ms: int = 0) -> None:
        """`session_timeout_ms`: time for which the ephemeral znodes of a broker that has died may remain."""
        self._store = store
        self._cache = metadata_cache
        self._session_seconds = session_timeout_ms / 1000
        self._broker: BrokerImage | None = None
        """The broker as it was last registered or is being registered; None before the first `register`."""
        self._value = b""

    async def register(self, broker: BrokerImage) -> None:
        """Register a broker. Raises StartupError if the id is still registered after the session timeout."""
        self._broker, self._value = broker, store_reader.broker_value(broker)
        await self._register(broker)

    async def _register(self, broker: BrokerImage) -> None:
        path, earlier = znodes.broker(broker.id), broker.epoch
        deadline = time.monotonic() + self._session_seconds + SESSION_SLACK_SECONDS
        while True:
            deleted = asyncio.Event()
            node = await self._store.get(path, deleted.set)
            if node is None:
                try:
                    await self._store.multi([Create(path, self._value, ephemeral=True)])
                except NodeExistsError:
                    pass
                continue  # read the znode again: it may be of this broker or another one
            if node.value == self._value and node.created != earlier:
                self._broker = replace(broker, epoch=node.created)
                await self._publish(self._broker)
                return
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    await deleted.wait()
            except TimeoutError:
                raise StartupError(
                    f"broker.id: {path} belongs to another running broker; give each broker its own broker.id"
                ) from None

    async def _publish(self, broker: BrokerImage) -> None:
        await self._cache.update(
            lambda image: replace(image, brokers=MappingProxyType({**image.brokers, broker.id: broker}))
        )

    async def renew(self) -> None:
        """Register again with a new session, unless `register` was never called.

        Raises StartupError like `register`; retries after errors of the store.
        """
        while self._broker is not None:
            try:
                await self._register(self._broker)
            except MetadataStoreError as error:
                failures_log.warning(
                    "Cannot register broker %d again, so the cluster considers it dead; retrying in %g s: %s",
                    self._broker.id,
                    RETRY_SECONDS,
                    error,
                )
                await asyncio.sleep(RETRY_SECONDS)
                continue
            return


async def next_broker_id(store: MetadataStore, above: int) -> int:
    """Return a new broker id: `above` (`reserved.broker.max.id`) plus the next version of `/brokers/seqid`, as in
    Kafka.
    """
    while True:
        node = await store.get(znodes.SEQUENCE_IDS)
        if node is None:
            raise NoNodeError(znodes.SEQUENCE_IDS)
        try:
            await store.multi([Set(znodes.SEQUENCE_IDS, b"", node.version)])
        except BadVersionError:
            continue  # another broker has this id
        return above + node.version + 1
