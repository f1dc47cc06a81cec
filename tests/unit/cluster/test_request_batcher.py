"""Batching of inter-broker requests: items that wait share the next request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.cluster.interbroker.request_batcher import RequestBatcher
from ottla.errors import NetworkError, UnknownServerError


class Brokers:
    """Brokers that respond with the squares of the items once `may_respond` is set."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, list[int]]] = []
        self.may_respond = asyncio.Event()
        self.error: Exception | None = None
        self.lost_results = 0

    async def send(self, broker_id: int, items: list[int]) -> list[int]:
        self.requests.append((broker_id, items))
        await self.may_respond.wait()
        if self.error is not None:
            raise self.error
        return [item**2 for item in items][self.lost_results :]


def run(test: Callable[[Brokers, RequestBatcher[int, int]], Awaitable[None]]) -> None:
    async def body() -> None:
        brokers = Brokers()
        await test(brokers, RequestBatcher(brokers.send))

    asyncio.run(body())


def test_items_submitted_during_a_request_share_the_next() -> None:
    async def test(brokers: Brokers, batcher: RequestBatcher[int, int]) -> None:
        submitted = [asyncio.create_task(batcher.submit(1, 2))]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        submitted += [asyncio.create_task(batcher.submit(1, item)) for item in (3, 4)]
        submitted.append(asyncio.create_task(batcher.submit(2, 5)))  # not delayed by broker 1
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert brokers.requests == [(1, [2]), (2, [5])]
        brokers.may_respond.set()
        assert await asyncio.gather(*submitted) == [4, 9, 16, 25]
        assert brokers.requests == [(1, [2]), (2, [5]), (1, [3, 4])]

    run(test)


def test_cancelled_item_is_not_sent() -> None:
    async def test(brokers: Brokers, batcher: RequestBatcher[int, int]) -> None:
        first = asyncio.create_task(batcher.submit(1, 2))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        second, third = asyncio.create_task(batcher.submit(1, 3)), asyncio.create_task(batcher.submit(1, 4))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        brokers.may_respond.set()
        assert (await first, await third) == (4, 16)
        assert brokers.requests == [(1, [2]), (1, [4])]

    run(test)


@pytest.mark.parametrize(("error", "expected"), [(NetworkError(), NetworkError), (ValueError(), UnknownServerError)])
def test_failed_request_fails_all_items_but_not_the_next(error: Exception, expected: type[Exception]) -> None:
    async def test(brokers: Brokers, batcher: RequestBatcher[int, int]) -> None:
        brokers.error = error
        brokers.may_respond.set()
        results = await asyncio.gather(*[batcher.submit(1, item) for item in (2, 3)], return_exceptions=True)
        assert [type(result) for result in results] == [expected, expected]
        brokers.error = None
        assert await batcher.submit(1, 4) == 16

    run(test)


def test_response_with_too_few_results_fails_all_items_but_not_the_next() -> None:
    async def test(brokers: Brokers, batcher: RequestBatcher[int, int]) -> None:
        brokers.lost_results = 1
        brokers.may_respond.set()
        submitted = [batcher.submit(1, item) for item in (2, 3)]
        async with asyncio.timeout(5):
            results = await asyncio.gather(*submitted, return_exceptions=True)
        assert [type(result) for result in results] == [UnknownServerError, UnknownServerError]
        brokers.lost_results = 0
        assert await batcher.submit(1, 4) == 16

    run(test)
