"""`BrokerPartitionInfo`: a cache of topic metadata, with the partitions and their leaders."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final, NamedTuple

from ottla import errors
from ottla.legacy.producer.client_utils import ClientUtils
from ottla.legacy.producer.producer_config import ProducerConfig
from ottla.legacy.producer.producer_pool import ProducerPool
from ottla.model import Node
from ottla.protocol.messages.metadata import MetadataResponseTopic

log: Final = logging.getLogger("ottla.legacy")


class PartitionAndLeader(NamedTuple):
    """A partition. `leader_broker_id` is None if it has no leader."""

    topic: str
    partition_id: int
    leader_broker_id: int | None


class BrokerPartitionInfo:
    """Fetches and caches metadata. Each update also replaces the connections to the leaders in the response."""

    def __init__(self, config: ProducerConfig, producer_pool: ProducerPool) -> None:
        self.brokers: tuple[tuple[str, int], ...] = config.metadata_broker_list
        self._config = config
        self._pool = producer_pool
        self._topics: dict[str, MetadataResponseTopic] = {}

    def get_broker_partition_info(self, topic: str) -> list[PartitionAndLeader]:
        """Return the partitions of a topic, sorted by number. Metadata that is not cached is fetched first. Raises
        BrokerNotAvailableError if no broker responds, and UnknownTopicOrPartitionError if the response has an error for
        the topic, or no partitions of it.
        """
        if topic not in self._topics:
            self.update_info({topic})
        metadata = self._topics.get(topic)
        if metadata is None or not metadata.partitions:
            raise errors.UnknownTopicOrPartitionError(f"{topic}: no broker returned metadata of this topic")
        return sorted(
            PartitionAndLeader(topic, p.partition_index, p.leader_id if p.leader_id >= 0 else None)
            for p in metadata.partitions
        )

    def update_info(self, topics: Collection[str]) -> None:
        """Fetch the metadata of topics. The cached metadata of a topic is kept if the response has an error for it.
        Raises BrokerNotAvailableError if no broker responds.
        """
        response = ClientUtils.fetch_topic_metadata(topics, self.brokers, self._config)
        nodes = {b.node_id: Node(b.node_id, b.host, b.port) for b in response.brokers}
        leaders = set()
        for topic in response.topics:
            if topic.error_code:
                log.warning(
                    "Error in the metadata of topic %s; continuing with cached metadata, if any: %s",
                    topic.name,
                    _error(topic.error_code),
                )
            else:
                self._topics[topic.name or ""] = topic
            leaders |= {nodes[p.leader_id] for p in topic.partitions if p.leader_id in nodes}
        self._pool.update_producer(leaders)


def _error(code: int) -> errors.KafkaError:
    return errors.for_code(code)()
