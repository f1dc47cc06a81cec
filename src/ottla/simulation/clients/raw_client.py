"""Single requests to chosen brokers, in chosen versions, without the retries of a client."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from ottla import errors
from ottla.cluster.interbroker.membership_proof import prove
from ottla.net.client.channel import Channel
from ottla.net.client.connect import SocketOptions
from ottla.protocol.message import Request, Response
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from ottla.records.builder import BatchBuilder, record_size_upper_bound

R = TypeVar("R", bound=Response)

TIMEOUT_SECONDS: Final = 8.0
CONNECT_SECONDS: Final = 3.0
METADATA_VERSION: Final = 9
COORDINATOR_VERSION: Final = 3
INIT_VERSION: Final = 4
ADD_PARTITIONS_VERSION: Final = 3
END_VERSION: Final = 3
PRODUCE_VERSION: Final = 9
"""A Produce version that has topic names and requires AddPartitionsToTxn before transactional batches."""
GROUP, TRANSACTION = 0, 1
"""Key types of FindCoordinator."""


class Leader(NamedTuple):
    """The leader of a partition and its epoch, according to one broker."""

    broker: int
    epoch: int


class ProducerId(NamedTuple):
    """A producer id and epoch."""

    id: int
    epoch: int


class RawClient:
    """Sends requests over one connection per broker. Broker ids are positions in `bootstrap_servers`."""

    def __init__(self, client_id: str, bootstrap_servers: str, secret: bytes | None = None) -> None:
        """Create a client, which connects to a broker when it sends a request to that broker. `secret` is the secret of
        the cluster, with which the client proves that it is one of its brokers; None for an ordinary client.
        """
        self._client_id = client_id
        self._addresses = [address.split(":") for address in bootstrap_servers.split(",")]
        self._secret = secret
        self._channels: dict[int, Channel] = {}
        self._connecting = asyncio.Lock()
        self._next = 0

    async def send(self, broker: int, request: Request[R], version: int, timeout: float = TIMEOUT_SECONDS) -> R:
        """Send a request, and return the response. Raises KafkaError if the client cannot connect, or if there is no
        response within `timeout` seconds.
        """
        channel = await self.connect(broker)
        return await channel.send(request, version, timeout)

    async def connect(self, broker: int) -> Channel:
        """Return the open connection to a broker, or open one. Raises KafkaError if that fails."""
        async with self._connecting:
            channel = self._channels.get(broker)
            if channel is None or not channel.is_open:
                channel = self._channels[broker] = await self._connect(broker)
            return channel

    async def _connect(self, broker: int) -> Channel:
        host, port = self._addresses[broker]
        options = SocketOptions(connect_timeout=CONNECT_SECONDS)
        channel = Channel(asyncio.get_running_loop(), host, int(port), client_id=self._client_id, options=options)
        await channel.connect()
        if self._secret is not None:
            await prove(channel, self._secret, TIMEOUT_SECONDS)
        return channel

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()

    def any_broker(self) -> int:
        """Return a broker id: round robin over all brokers."""
        self._next += 1
        return self._next % len(self._addresses)

    async def leader(self, topic: str, partition: int) -> Leader:
        """Return the leader of a partition. Raises KafkaError if the queried broker does not respond, or knows none."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        response = await self.send(self.any_broker(), request, METADATA_VERSION)
        for state in response.topics[0].partitions:
            if state.partition_index == partition and 0 <= state.leader_id < len(self._addresses):
                return Leader(state.leader_id, state.leader_epoch)
        raise errors.LeaderNotAvailableError

    async def coordinator(self, key: str, kind: int) -> int:
        """Return the id of the broker that coordinates a group or transactional id. `kind` is GROUP or TRANSACTION."""
        request = FindCoordinatorRequest(key=key, key_type=kind)
        response = await self.send(self.any_broker(), request, COORDINATOR_VERSION)
        raise_for(response.error_code)
        return response.node_id

    async def init_producer(self, transactional_id: str | None = None) -> ProducerId:
        """Return a new producer id or, for a transactional id, its producer id with a new epoch. Raises KafkaError on
        failure.
        """
        broker = self.any_broker()
        if transactional_id is not None:
            broker = await self.coordinator(transactional_id, TRANSACTION)
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=10_000)
        response = await self.send(broker, request, INIT_VERSION)
        raise_for(response.error_code)
        return ProducerId(response.producer_id, response.producer_epoch)

    async def add_partitions(
        self, transactional_id: str, producer: ProducerId, topic: str, partitions: Sequence[int]
    ) -> int:
        """Add partitions of a topic to a transaction, and return the error code of the first one."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        broker = await self.coordinator(transactional_id, TRANSACTION)
        response = await self.send(broker, request, ADD_PARTITIONS_VERSION)
        return response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

    async def end_transaction(self, transactional_id: str, producer: ProducerId, *, commit: bool = True) -> int:
        """Commit a transaction, or abort it if `commit` is False, and return the error code."""
        request = EndTxnRequest(
            transactional_id=transactional_id, producer_id=producer.id, producer_epoch=producer.epoch, committed=commit
        )
        broker = await self.coordinator(transactional_id, TRANSACTION)
        return (await self.send(broker, request, END_VERSION)).error_code

    async def produce(
        self, broker: int, topic: str, partition: int, batch: memoryview, transactional_id: str | None = None
    ) -> PartitionProduceResponse:
        """Send one batch to a broker with acks=all, and return the response for its partition."""
        return await send_batch(await self.connect(broker), topic, partition, batch, transactional_id)


async def send_batch(
    channel: Channel, topic: str, partition: int, batch: memoryview, transactional_id: str | None = None
) -> PartitionProduceResponse:
    """Send one batch over a connection with acks=all, and return the response for its partition."""
    data = PartitionProduceData(index=partition, records=batch)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=5000, topic_data=topics)
    response = await channel.send(request, PRODUCE_VERSION, TIMEOUT_SECONDS)
    return response.responses[0].partition_responses[0]


def raise_for(code: int) -> None:
    """Raise the error with this code; do nothing for NONE."""
    if code:
        raise errors.for_code(code)


def batch_of(
    values: Sequence[bytes], producer: ProducerId, sequence: int, now_ms: int, *, transactional: bool = False
) -> memoryview:
    """Return a batch of an idempotent or transactional producer, with `now_ms` as the timestamp of its records."""
    builder = BatchBuilder(bytearray(sum(record_size_upper_bound(0, len(value)) for value in values)))
    for value in values:
        builder.append(now_ms, None, value)
    return builder.close(producer.id, producer.epoch, sequence, transactional=transactional)
