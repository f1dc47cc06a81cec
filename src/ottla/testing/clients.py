"""Factories of topics, and of clients, which are closed at the end of the test."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any, Unpack

if TYPE_CHECKING:
    from ottla import aio
    from ottla.client.admin.admin import KafkaAdminClient
    from ottla.client.consumer.consumer import KafkaConsumer
    from ottla.client.consumer.share.share_consumer import KafkaShareConsumer
    from ottla.client.options.admin import AdminOptions
    from ottla.client.options.consumer import ConsumerOptions
    from ottla.client.options.producer import ProducerOptions
    from ottla.client.options.share_consumer import ShareConsumerOptions
    from ottla.client.producer.producer import KafkaProducer

CLOSE_SECONDS = 10.0
"""Maximum time in seconds that a producer, consumer or share consumer may take to close at the end of the test."""


class _Factory:
    """Creates clients, by default of the test's broker; the stack closes them."""

    def __init__(self, bootstrap_servers: str, stack: ExitStack) -> None:
        self._servers = bootstrap_servers
        self._stack = stack


class ProducerFactory(_Factory):
    """Creates producers: `ottla_producer(acks="all")` takes the options of `KafkaProducer`."""

    def __call__(self, **options: Unpack[ProducerOptions]) -> KafkaProducer:
        """Create a producer. `bootstrap_servers` is by default the address of the test's broker."""
        from ottla.client.producer.producer import KafkaProducer

        options.setdefault("bootstrap_servers", self._servers)
        producer = KafkaProducer(**options)
        self._stack.callback(producer.close, CLOSE_SECONDS)
        return producer


class ConsumerFactory(_Factory):
    """Creates consumers: `ottla_consumer("topic", group_id="g")` takes the arguments of `KafkaConsumer`.

    `auto_offset_reset` is by default "earliest", because tests often write records before a consumer has started.
    """

    def __call__(self, *topics: str, **options: Unpack[ConsumerOptions]) -> KafkaConsumer:
        """Create a consumer, which subscribes to the topics if there are any."""
        from ottla.client.consumer.consumer import KafkaConsumer

        consumer = KafkaConsumer(*topics, **_for_tests(options, self._servers))
        self._stack.callback(consumer.close, timeout_ms=CLOSE_SECONDS * 1000)
        return consumer


def _for_tests(options: ConsumerOptions, bootstrap_servers: str) -> ConsumerOptions:
    options.setdefault("bootstrap_servers", bootstrap_servers)
    options.setdefault("auto_offset_reset", "earliest")
    return options


class ShareConsumerFactory(_Factory):
    """Creates share consumers: `ottla_share_consumer("topic", group_id="g")` takes the arguments of
    `KafkaShareConsumer`.
    """

    def __call__(self, *topics: str, **options: Unpack[ShareConsumerOptions]) -> KafkaShareConsumer:
        """Create a share consumer, which subscribes to the topics if there are any."""
        from ottla.client.consumer.share.share_consumer import KafkaShareConsumer

        options.setdefault("bootstrap_servers", self._servers)
        consumer = KafkaShareConsumer(*topics, **options)
        self._stack.callback(consumer.close, timeout_ms=CLOSE_SECONDS * 1000)
        return consumer


class AdminFactory(_Factory):
    """Creates admin clients: `ottla_admin()` takes the options of `KafkaAdminClient`."""

    def __call__(self, **options: Unpack[AdminOptions]) -> KafkaAdminClient:
        """Create an admin client. `bootstrap_servers` is by default the address of the test's broker."""
        from ottla.client.admin.admin import KafkaAdminClient

        options.setdefault("bootstrap_servers", self._servers)
        return self._stack.enter_context(KafkaAdminClient(**options))


class TopicFactory:
    """Creates topics: `ottla_create_topic(partitions=3)` returns the unique name of a new topic."""

    def __init__(self, admin: AdminFactory, new_name: Callable[[], str]) -> None:
        self._admin = admin
        self._new_name = new_name
        self._client: KafkaAdminClient | None = None

    def __call__(
        self,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str | None] | None = None,
    ) -> str:
        """Create a topic with a unique name, and return the name. Partitions and replication factor: -1 for the
        broker's default.
        """
        from ottla.client.admin.topics.topics import NewTopic

        name = self._new_name()
        if self._client is None:
            self._client = self._admin()
        self._client.create_topics([NewTopic(name, partitions, replication_factor, topic_configs=configs)])
        return name


class AsyncClients:
    """The asyncio clients of one test. The task of the test closes them when the test function has ended."""

    def __init__(self, bootstrap_servers: str, before_close: Callable[[], object]) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.stack: AsyncExitStack[bool | None] = AsyncExitStack()
        self._before_close = before_close

    def closing(self, test: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        """Return the test function with an additional last step, which calls `before_close` and closes the clients.

        A fixture cannot do this for both asyncio plugins: pytest-asyncio and anyio run only their own fixtures on the
        event loop of the test.
        """

        @functools.wraps(test)
        async def closing(*args: Any, **kwargs: Any) -> object:
            async with self.stack:
                try:
                    return await test(*args, **kwargs)
                finally:
                    self._before_close()

        return closing


class _AsyncFactory:
    """Starts clients, which `AsyncClients` closes when the test function has ended."""

    def __init__(self, clients: AsyncClients) -> None:
        self._clients = clients


class AsyncProducerFactory(_AsyncFactory):
    """Starts asyncio producers: `await ottla_aio_producer(acks="all")`."""

    async def __call__(self, **options: Unpack[ProducerOptions]) -> aio.KafkaProducer:
        """Create a producer, start it, and return it."""
        from ottla.client.producer.async_producer import KafkaProducer

        options.setdefault("bootstrap_servers", self._clients.bootstrap_servers)
        producer = KafkaProducer(**options)
        self._clients.stack.push_async_callback(producer.stop, CLOSE_SECONDS)
        await producer.start()
        return producer


class AsyncConsumerFactory(_AsyncFactory):
    """Starts asyncio consumers: `await ottla_aio_consumer("topic", group_id="g")`.

    `auto_offset_reset` is by default "earliest", as with `ConsumerFactory`.
    """

    async def __call__(self, *topics: str, **options: Unpack[ConsumerOptions]) -> aio.KafkaConsumer:
        """Create a consumer, which subscribes to the topics if there are any, start it, and return it."""
        from ottla.client.consumer.async_consumer import KafkaConsumer

        consumer = KafkaConsumer(*topics, **_for_tests(options, self._clients.bootstrap_servers))
        self._clients.stack.push_async_callback(consumer.close, timeout_ms=CLOSE_SECONDS * 1000)
        await consumer.start()
        return consumer


class AsyncShareConsumerFactory(_AsyncFactory):
    """Starts asyncio share consumers: `await ottla_aio_share_consumer("topic", group_id="g")`."""

    async def __call__(self, *topics: str, **options: Unpack[ShareConsumerOptions]) -> aio.KafkaShareConsumer:
        """Create a share consumer, which subscribes to the topics if there are any, start it, and return it."""
        from ottla.client.consumer.share.async_share_consumer import KafkaShareConsumer

        options.setdefault("bootstrap_servers", self._clients.bootstrap_servers)
        consumer = KafkaShareConsumer(*topics, **options)
        self._clients.stack.push_async_callback(consumer.close, timeout_ms=CLOSE_SECONDS * 1000)
        await consumer.start()
        return consumer


class AsyncAdminFactory(_AsyncFactory):
    """Starts asyncio admin clients: `await ottla_aio_admin()`."""

    async def __call__(self, **options: Unpack[AdminOptions]) -> aio.KafkaAdminClient:
        """Create an admin client, start it, and return it."""
        from ottla.client.admin.async_admin import KafkaAdminClient

        options.setdefault("bootstrap_servers", self._clients.bootstrap_servers)
        return await self._clients.stack.enter_async_context(KafkaAdminClient(**options))
