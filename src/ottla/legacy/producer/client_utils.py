"""`ClientUtils`: requests for topic metadata."""

from __future__ import annotations

import logging
import random
from collections.abc import Collection, Sequence
from typing import Final

from ottla.errors import BrokerNotAvailableError, KafkaError
from ottla.legacy.producer.producer_config import ProducerConfig
from ottla.legacy.producer.sync_producer import SyncProducer
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

log: Final = logging.getLogger("ottla.legacy")


class ClientUtils:
    """A namespace for functions, with Kafka's name. It is not instantiated."""

    @staticmethod
    def fetch_topic_metadata(
        topics: Collection[str], brokers: Sequence[tuple[str, int]], config: ProducerConfig
    ) -> MetadataResponse:
        """Return the metadata of topics from the first broker that responds. The brokers are tried in random order.

        Each request uses a new connection, which is closed afterwards. Raises BrokerNotAvailableError if no broker
        responds.
        """
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in sorted(topics)])
        last: KafkaError | None = None
        for left, (host, port) in zip(reversed(range(len(brokers))), random.sample(brokers, len(brokers)), strict=True):
            producer = SyncProducer(host, port, config)
            try:
                return producer.request(request)
            except KafkaError as error:
                log.warning(
                    "Cannot fetch metadata (topics: %s) from broker %s:%d; %s: %s",
                    ", ".join(sorted(topics)),
                    host,
                    port,
                    "trying another broker" if left else "no other broker is left, so the request fails",
                    error,
                )
                last = error
            finally:
                producer.close()
        addresses = ", ".join(f"{host}:{port}" for host, port in brokers)
        raise BrokerNotAvailableError(f"no metadata of {', '.join(sorted(topics))} from {addresses}: {last}") from last
