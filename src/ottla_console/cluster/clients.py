"""The clients that pages use in the event loop of the console: an admin client, a producer, and a consumer for each
page that reads records.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from ottla.aio import KafkaAdminClient, KafkaConsumer, KafkaProducer
from ottla.errors import KafkaTimeoutError

READ_MS: Final = 1_300
"""Timeout of requests for a page in milliseconds. If the cluster does not respond, the page must show that within two
seconds.
"""
CHANGE_MS: Final = 10_000
"""Timeout of changes in milliseconds."""
MAX_CONSUMERS: Final = 16
"""The maximum number of concurrent consumers, which pages with records and live tails use. More are rejected."""
FETCH_BYTES: Final = 4 * 1024 * 1024
PARTITION_BYTES: Final = 512 * 1024


class ClusterClients:
    """The clients of a console. Not thread-safe: use them in the console's event loop."""

    def __init__(self, configs: Mapping[str, Any]) -> None:
        self._configs = dict(configs)
        self.admin = KafkaAdminClient(self._configs)
        self._producer: KafkaProducer | None = None
        self._starting = asyncio.Lock()
        self._consumers = 0

    async def start(self) -> None:
        """Start the admin client."""
        await self.admin.start()

    async def stop(self) -> None:
        """Close the admin client and the producer."""
        if self._producer is not None:
            await self._producer.stop()
        await self.admin.stop()

    async def producer(self) -> KafkaProducer:
        """Return the producer. The first call starts it."""
        async with self._starting:
            if self._producer is None:
                limits = {"max.block.ms": CHANGE_MS, "delivery.timeout.ms": CHANGE_MS, "request.timeout.ms": CHANGE_MS}
                producer = KafkaProducer({**self._configs, **limits, "linger.ms": 0})
                await producer.start()
                self._producer = producer
            return self._producer

    @asynccontextmanager
    async def consumer(self, **options: Any) -> AsyncIterator[KafkaConsumer]:
        """Yield a consumer without a group; `options` are additional configs. Raises KafkaTimeoutError if too many are
        open.
        """
        if self._consumers >= MAX_CONSUMERS:
            raise KafkaTimeoutError(f"{MAX_CONSUMERS} pages are reading records already; close a live tail, or retry")
        configs = {
            **self._configs,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.max.bytes": FETCH_BYTES,
            "max.partition.fetch.bytes": PARTITION_BYTES,
            "fetch.max.wait.ms": 250,
            **options,
        }
        self._consumers += 1
        try:
            async with KafkaConsumer(configs) as consumer:
                yield consumer
        finally:
            self._consumers -= 1
