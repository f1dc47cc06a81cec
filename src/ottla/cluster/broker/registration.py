"""This broker's place in the cluster: its node below `/brokers/ids`, and its number where it has none yet.

The node is ephemeral: it goes with the session, and is made again with the next one. Another broker of the same number
is waited for no longer than its session could live, since it may be this one's own earlier run (whose session ends at
once where its data directory is the same, see `earlier_session`). Loop thread.
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
from ottla.cluster.store.metadata_store import Create, MetadataStore, MetadataStoreError, NodeExistsError, Set
from ottla.errors import StartupError

log = logging.getLogger("ottla.cluster")

SESSION_SLACK_SECONDS: Final = 2.0
"""ZooKeeper ends sessions by ticks, so a little later than their time is up."""
RETRY_SECONDS: Final = 0.1


class Registration:
    """Makes the node, and makes it again. What it is made from is in the view's image."""

    def __init__(self, store: MetadataStore, metadata_cache: MetadataCache, session_timeout_ms: int = 0) -> None:
        """`session_timeout_ms`: for how long ephemeral nodes of a run that died may still be there."""
        self._store = store
        self._cache = metadata_cache
        self._session_seconds = session_timeout_ms / 1000
        self._broker: BrokerImage | None = None
        """As it was registered last."""
        self._value = b""

    async def register(self, broker: BrokerImage) -> None:
        """Be one of the live brokers. StartupError where another has this number and keeps it."""
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
                continue  # what is there now, this one's or another's?
            if node.value == self._value and node.created != earlier:
                self._broker = replace(broker, epoch=node.created)
                await self._publish(self._broker)
                return
            try:
                await asyncio.wait_for(deleted.wait(), deadline - time.monotonic())
            except TimeoutError:
                raise StartupError(
                    f"broker.id: {path} belongs to another broker that runs; give each broker its own broker.id"
                ) from None

    async def _publish(self, broker: BrokerImage) -> None:
        await self._cache.update(
            lambda image: replace(image, brokers=MappingProxyType({**image.brokers, broker.id: broker}))
        )

    async def renew(self) -> None:
        """Register again: the session that the node was bound to has ended. Raises what `register` does."""
        while self._broker is not None:
            try:
                await self._register(self._broker)
            except MetadataStoreError as error:
                log.warning("this broker cannot be registered again yet: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            return


async def next_broker_id(store: MetadataStore, above: int) -> int:
    """A number that no broker had before: `reserved.broker.max.id` and the version of `/brokers/seqid`, as Kafka."""
    while True:
        await store.multi([Set(znodes.SEQUENCE_IDS, b"")])
        node = await store.get(znodes.SEQUENCE_IDS)
        if node is not None:
            return above + node.version
