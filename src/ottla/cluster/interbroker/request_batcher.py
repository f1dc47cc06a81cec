"""Batches items into requests, usually to other brokers. Items that arrive while a request is in flight go into the
next ones.

A broker handles one request of a connection at a time. If every item were a request, each would wait for all items
before it. With one request in flight per broker, the batches grow with the load instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from ottla.errors import KafkaError, UnknownServerError

log = logging.getLogger("ottla.cluster")

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_BATCH: Final = 1000
"""The maximum number of items in one request."""


class RequestBatcher(Generic[Item, Result]):
    """Batches the items of one kind of request per broker. Not thread-safe: event loop only.

    `send` sends one request and returns the results of its items in their order.
    """

    def __init__(self, send: Callable[[int, list[Item]], Awaitable[list[Result]]]) -> None:
        self._send = send
        self._pending: dict[int, list[tuple[Item, asyncio.Future[Result]]]] = {}
        self._senders: dict[int, asyncio.Task[None]] = {}

    async def submit(self, broker_id: int, item: Item) -> Result:
        """Send an item in one of the next requests to a broker, and return its result.

        Raises the KafkaError of the request, UnknownServerError after any other error, and CancelledError when the
        batcher is closed.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._pending.setdefault(broker_id, []).append((item, future))
        if broker_id not in self._senders:
            self._senders[broker_id] = loop.create_task(self._send_all(broker_id))
        return await future

    def close(self) -> None:
        """Cancel the requests in flight and all pending items."""
        for sender in self._senders.values():
            sender.cancel()
        for pending in self._pending.values():
            for _, future in pending:
                future.cancel()

    async def _send_all(self, broker_id: int) -> None:
        pending = self._pending[broker_id]
        try:
            while pending:
                batch = [entry for entry in pending[:MAX_BATCH] if not entry[1].done()]
                del pending[:MAX_BATCH]
                if batch:
                    await self._send_batch(broker_id, batch)
        finally:
            del self._senders[broker_id], self._pending[broker_id]

    async def _send_batch(self, broker_id: int, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        futures = [future for _, future in batch]
        try:
            results = await self._send(broker_id, [item for item, _ in batch])
            if len(results) != len(batch):
                raise ValueError(f"{len(results)} results for {len(batch)} items")
        except KafkaError as error:
            _fail(futures, error)
        except Exception:
            # a bug, but callers must not wait forever
            log.exception(
                "Unexpected error in %s for broker %d; failing the calls that wait for it",
                getattr(self._send, "__qualname__", self._send),
                broker_id,
            )
            _fail(futures, UnknownServerError())
        except asyncio.CancelledError:
            for future in futures:
                future.cancel()
            raise
        else:
            for future, result in zip(futures, results, strict=True):
                if not future.done():
                    future.set_result(result)


def _fail(futures: list[asyncio.Future[Result]], error: KafkaError) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
