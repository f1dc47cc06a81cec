"""Small questions to other brokers, asked together: what comes up while a request is under way goes into the next one.

A broker works on one request of a connection at a time. Were every question a request of its own, each would wait for
all before it; so the busier it gets, the more go together. Loop thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from ottla.errors import KafkaError, UnknownServerError

log = logging.getLogger("ottla.cluster")

Q = TypeVar("Q")
A = TypeVar("A")

AT_MOST: Final = 1000
"""Questions in one request."""


class RequestBatcher(Generic[Q, A]):
    """Questions of one kind. `send` asks a broker several of them, and gives their answers in their order.

    It ends with what it sends through: nothing runs on when every `send` fails.
    """

    def __init__(self, send: Callable[[int, list[Q]], Awaitable[list[A]]]) -> None:
        self._send = send
        self._waiting: dict[int, list[tuple[Q, asyncio.Future[A]]]] = {}
        self._senders: dict[int, asyncio.Task[None]] = {}

    async def ask(self, broker_id: int, question: Q) -> A:
        """The answer. Raises the error of the request that the question was in."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[A] = loop.create_future()
        self._waiting.setdefault(broker_id, []).append((question, answered))
        if broker_id not in self._senders:
            self._senders[broker_id] = loop.create_task(self._send_all(broker_id))
        return await answered

    async def _send_all(self, broker_id: int) -> None:
        waiting = self._waiting[broker_id]
        try:
            while waiting:
                together = [asked for asked in waiting[:AT_MOST] if not asked[1].done()]
                del waiting[:AT_MOST]
                if together:
                    await self._send_some(broker_id, together)
        finally:
            del self._senders[broker_id], self._waiting[broker_id]

    async def _send_some(self, broker_id: int, together: list[tuple[Q, asyncio.Future[A]]]) -> None:
        try:
            answers = await self._send(broker_id, [question for question, _ in together])
        except KafkaError as error:
            _fail(together, error)
        except Exception:
            # a bug: who waits must not wait for ever
            log.exception("broker %d could not be asked", broker_id)
            _fail(together, UnknownServerError())
        else:
            for (_, answered), answer in zip(together, answers, strict=True):
                if not answered.done():
                    answered.set_result(answer)


def _fail(together: list[tuple[Q, asyncio.Future[A]]], error: KafkaError) -> None:
    for _, answered in together:
        if not answered.done():
            answered.set_exception(error)
