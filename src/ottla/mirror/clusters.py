"""The clients of a cluster, which its flows share, and readers of MirrorMaker's internal topics."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, Self

from ottla.aio import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic, TopicPartition
from ottla.config.mirror import MirrorConfig
from ottla.errors import (
    ConfigurationError,
    InvalidReplicationFactorError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from ottla.mirror.flow_config import MirrorProperties
from ottla.records.consumer_record import ConsumerRecord

log = logging.getLogger("ottla.mirror")

POLL_MS: Final = 500
COMPACTED: Final[Mapping[str, str]] = {"cleanup.policy": "compact"}


class Cluster:
    """One cluster: its admin client, and its producer of heartbeats, checkpoints and offset syncs.

    `async with` starts the clients, and closes them at the end.
    """

    def __init__(self, alias: str, properties: MirrorProperties) -> None:
        self.alias = alias
        self.admin = KafkaAdminClient(properties.client_configs("admin", alias))
        self.producer = KafkaProducer(properties.client_configs("producer", alias))
        self._consumer_configs = properties.client_configs("consumer", alias)
        self._clients = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as clients:
            await clients.enter_async_context(self.admin)
            await clients.enter_async_context(self.producer)
            self._clients = clients.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._clients.aclose()

    def reader(self, topic: str) -> TopicReader:
        """Return a reader of an internal topic."""
        return TopicReader(self._consumer_configs, topic)

    async def create_compacted_topic(self, name: str, config: MirrorConfig, kind: str, partitions: int = 1) -> None:
        """Create a compacted topic unless it exists, with the replication factor of the config
        `<kind>.replication.factor`.

        Raises ConfigurationError if the cluster rejects this replication factor, for example because it has too few
        brokers.
        """
        option = f"{kind}.replication.factor"
        topic = NewTopic(name, partitions, config.values[option], topic_configs=COMPACTED)
        try:
            await self.admin.create_topics([topic], wait_for_metadata=True)
        except TopicAlreadyExistsError:
            return
        except InvalidReplicationFactorError as error:
            raise ConfigurationError(f"{option}: cannot create topic {name} on {self.alias}: {error}") from None
        log.info("Created topic %s on %s", name, self.alias)


class TopicReader:
    """Reads an internal topic: at first from its beginning to its current end, later the records added since then."""

    def __init__(self, configs: Mapping[str, Any], topic: str) -> None:
        self._consumer = KafkaConsumer(
            {**configs, "group.id": None, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        )
        self._topic = topic

    async def __aenter__(self) -> Self:
        await self._consumer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.close()

    async def read_to_end(self) -> AsyncIterator[ConsumerRecord]:
        """Yield the records that were not returned by an earlier call, at least up to the current end of the topic.

        Raises UnknownTopicOrPartitionError if the broker does not know the topic, for example because it has just
        started: without the offsets in it, all records would be copied again.
        """
        partitions = [
            TopicPartition(self._topic, p) for p in await self._consumer.partitions_for_topic(self._topic) or ()
        ]
        if not partitions:
            raise UnknownTopicOrPartitionError(f"topic {self._topic} is not known to the broker")
        self._consumer.assign(partitions)
        ends = await self._consumer.end_offsets(partitions)
        while behind := [tp for tp in partitions if await self._consumer.position(tp) < ends[tp]]:
            polled = await self._consumer.poll(POLL_MS)
            log.debug("Polled topic %s; partitions not read to the end before this poll: %d", self._topic, len(behind))
            for records in polled.values():
                for record in records:
                    yield record
