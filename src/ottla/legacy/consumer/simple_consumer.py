"""`SimpleConsumer`: the consumer of Kafka 0.8 that reads from a single broker.

    consumer = SimpleConsumer("localhost", 9092, so_timeout=10_000, buffer_size=64 * 1024, client_id="reader")
    request = FetchRequestBuilder().add_fetch("page_visits", 0, offset, 100_000).build()
    for message in consumer.fetch(request).message_set("page_visits", 0):
        print(message.offset, message.message.value)

The application must find the leader of a partition with `send(TopicMetadataRequest(...))` and the offset to start at
with `get_offsets_before`, and handle a change of the leader, which is shown by the error codes of responses.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

from ottla.errors import IllegalStateError, KafkaError
from ottla.legacy import requests as api
from ottla.legacy.config import client_id as checked_client_id
from ottla.legacy.keyed_message import Message
from ottla.model import Node, TopicPartition
from ottla.net.client.blocking_channel import USE_DEFAULT_BUFFER_SIZE, BlockingChannel
from ottla.protocol.message import Request, Response
from ottla.protocol.messages import fetch, find_coordinator, list_offsets, metadata, offset_commit, offset_fetch
from ottla.records import legacy_message_set

R = TypeVar("R", bound=Response)
T = TypeVar("T")

VERSION: Final = 0


class SimpleConsumer:
    """Sends requests to one broker. Thread-safe. `so_timeout` is the time limit in milliseconds for connecting, for
    sending and for receiving; `max_wait` of a fetch should be less. `buffer_size` is the size of the socket's receive
    buffer in bytes (-1: the system default).
    """

    def __init__(
        self, host: str, port: int, so_timeout: int = 30_000, buffer_size: int = 64 * 1024, client_id: str = ""
    ) -> None:
        self.host = host
        self.port = port
        self.client_id: str = checked_client_id(client_id)
        self._channel = BlockingChannel(host, port, buffer_size, USE_DEFAULT_BUFFER_SIZE, so_timeout)
        self._lock = threading.Lock()
        self._closed = False
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, even while another thread waits for a response. May be called repeatedly."""
        self._closed = True
        self._channel.disconnect()

    def _request(self, request: Request[R], version: int = VERSION) -> R:
        """Return the broker's response. If the request fails, it is sent once more over a new connection, unless the
        consumer is closed.
        """
        with self._lock:
            try:
                return self._exchange(request, version)
            except KafkaError:
                if self._closed:
                    raise
                return self._exchange(request, version)

    def _exchange(self, request: Request[R], version: int) -> R:
        if self._closed:
            raise IllegalStateError("the consumer is closed")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFF_FFFF
        try:
            self._channel.connect()
            if self._closed:
                raise IllegalStateError("the consumer is closed")  # by close(), before there was a connection
            self._channel.send(request, version, self._correlation_id, self.client_id)
            return cast(R, self._channel.receive())
        except BaseException:
            self._channel.disconnect()
            raise

    # Metadata

    def send(self, request: api.TopicMetadataRequest) -> api.TopicMetadataResponse:
        """Return the metadata of topics. Errors of topics and partitions are in the response."""
        topics = [metadata.MetadataRequestTopic(name=name) for name in request.topics]
        response = self._request(metadata.MetadataRequest(topics=topics))
        nodes = {b.node_id: Node(b.node_id, b.host, b.port) for b in response.brokers}
        return api.TopicMetadataResponse(tuple(_topic(topic, nodes) for topic in response.topics))

    def find_coordinator(self, request: api.ConsumerMetadataRequest) -> api.ConsumerMetadataResponse:
        """Return the coordinator of a group, which stores the offsets that are committed with version 1, or an error
        code.
        """
        response = self._request(find_coordinator.FindCoordinatorRequest(key=request.group))
        coordinator = None if response.error_code else Node(response.node_id, response.host, response.port)
        return api.ConsumerMetadataResponse(coordinator, response.error_code)

    # Messages

    def fetch(self, request: api.FetchRequest) -> api.FetchResponse:
        """Return messages of partitions whose leader is this broker. Errors of partitions are in the response."""
        fetch_request = fetch.FetchRequest(
            max_wait_ms=request.max_wait,
            min_bytes=request.min_bytes,
            topics=[
                fetch.FetchTopic(topic=topic, partitions=partitions)
                for topic, partitions in _by_topic(
                    {
                        tp: fetch.FetchPartition(
                            partition=tp.partition, fetch_offset=info.offset, partition_max_bytes=info.fetch_size
                        )
                        for tp, info in request.request_info.items()
                    }
                ).items()
            ],
        )
        response = self._request(fetch_request)
        return api.FetchResponse(
            {TopicPartition(t.topic, p.partition_index): _fetched(p) for t in response.responses for p in t.partitions}
        )

    def get_offsets_before(self, request: api.OffsetRequest) -> api.OffsetResponse:
        """Return the start offsets of the segments that were last modified at a time or before, the newest first.
        LATEST_TIME selects all segments, and the offset after the last committed message comes first. EARLIEST_TIME
        requests only the first offset of the partition. Errors of partitions are in the response.
        """
        queries = {
            tp: list_offsets.ListOffsetsPartition(
                partition_index=tp.partition, timestamp=info.time, max_num_offsets=info.max_num_offsets
            )
            for tp, info in request.request_info.items()
        }
        topics = [list_offsets.ListOffsetsTopic(name=name, partitions=p) for name, p in _by_topic(queries).items()]
        response = self._request(list_offsets.ListOffsetsRequest(replica_id=-1, topics=topics))
        return api.OffsetResponse(
            {
                TopicPartition(t.name, p.partition_index): api.PartitionOffsets(
                    p.error_code, tuple(p.old_style_offsets)
                )
                for t in response.topics
                for p in t.partitions
            }
        )

    def earliest_or_latest_offset(self, partition: TopicPartition, earliest_or_latest: int) -> int:
        """Return the first offset (EARLIEST_TIME), or the offset after the last committed message (LATEST_TIME). Raises
        KafkaError if the request fails or the broker returns an error.
        """
        info = api.PartitionOffsetRequestInfo(earliest_or_latest, 1)
        answer = self.get_offsets_before(api.OffsetRequest({partition: info})).data[partition]
        api.ErrorMapping.maybe_throw(answer.error_code)
        return answer.offsets[0]

    # Offsets of a group

    def commit_offsets(self, request: api.OffsetCommitRequest) -> api.OffsetCommitResponse:
        """Commit offsets of a group. Errors of partitions are in the response."""
        by_partition = {
            tp: offset_commit.OffsetCommitRequestPartition(
                partition_index=tp.partition, committed_offset=offset.offset, committed_metadata=offset.metadata
            )
            for tp, offset in request.request_info.items()
        }
        commit_request = offset_commit.OffsetCommitRequest(
            group_id=request.group_id,
            generation_id_or_member_epoch=request.group_generation_id,
            member_id=request.consumer_id,
            topics=[
                offset_commit.OffsetCommitRequestTopic(name=name, partitions=partitions)
                for name, partitions in _by_topic(by_partition).items()
            ],
        )
        response = self._request(commit_request, request.version_id)
        return api.OffsetCommitResponse(
            {TopicPartition(t.name, p.partition_index): p.error_code for t in response.topics for p in t.partitions}
        )

    def fetch_offsets(self, request: api.OffsetFetchRequest) -> api.OffsetFetchResponse:
        """Return committed offsets of a group. Errors of partitions are in the response."""
        partitions = _by_topic({tp: tp.partition for tp in request.request_info})
        topics = [
            offset_fetch.OffsetFetchRequestTopic(name=name, partition_indexes=numbers)
            for name, numbers in partitions.items()
        ]
        response = self._request(
            offset_fetch.OffsetFetchRequest(group_id=request.group_id, topics=topics), request.version_id
        )
        return api.OffsetFetchResponse(
            {
                TopicPartition(t.name, p.partition_index): api.OffsetMetadataAndError(
                    p.committed_offset, p.metadata or "", p.error_code
                )
                for t in response.topics
                for p in t.partitions
            }
        )


def _by_topic(values: Mapping[TopicPartition, T]) -> dict[str, list[T]]:
    by_topic: dict[str, list[T]] = {}
    for tp, one in values.items():
        by_topic.setdefault(tp.topic, []).append(one)
    return by_topic


def _topic(topic: metadata.MetadataResponseTopic, nodes: Mapping[int, Node]) -> api.TopicMetadata:
    partitions = sorted(topic.partitions, key=lambda p: p.partition_index)
    return api.TopicMetadata(
        topic.name or "",
        tuple(
            api.PartitionMetadata(
                p.partition_index,
                nodes.get(p.leader_id),
                tuple(nodes[n] for n in p.replica_nodes if n in nodes),
                tuple(nodes[n] for n in p.isr_nodes if n in nodes),
                p.error_code,
            )
            for p in partitions
        ),
        topic.error_code,
    )


def _fetched(p: Any) -> api.FetchedPartition:
    records = () if p.error_code or not p.records else legacy_message_set.records(p.records)
    messages = tuple(api.MessageAndOffset(Message(r.key, r.value), r.offset) for r in records)
    size = 0 if p.error_code or not p.records else len(p.records)
    return api.FetchedPartition(p.error_code, p.high_watermark, messages, size)
