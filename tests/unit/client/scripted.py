"""A broker for tests of clients, in memory and on localhost; a test can intercept every request.

    with ScriptedBroker() as broker:
        broker.add_topic("t", 1)
        broker.on(ProduceRequest, lambda request: error_response, times=1)

It responds as a single broker, and keeps the produced batches as they arrived.
"""

from __future__ import annotations

import socket
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Self
from uuid import UUID

from ottla.protocol.apis import APIS, api
from ottla.protocol.framing import FrameReader, response_frame
from ottla.protocol.header import RequestHeader, decode_request_header
from ottla.protocol.message import Request, Response, decode
from ottla.protocol.messages import (
    api_versions,
    consumer_group_heartbeat,
    create_topics,
    describe_cluster,
    fetch,
    find_coordinator,
    get_telemetry_subscriptions,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    push_telemetry,
    sync_group,
)
from ottla.records.batch import assign, read_header, split

DROP = object()
"""Returned by a handler to close the connection without a response."""
SILENCE = object()
"""Returned by a handler to send no response, also to later requests, and keep the connection."""

NO_ID = UUID(int=0)

Handler = Callable[[Any], Any]


class ScriptedBroker:
    """Listens when entered; `address` is for bootstrap_servers."""

    def __init__(self, max_versions: dict[str, int] | None = None) -> None:
        self.max_versions = max_versions or {}
        self.topics: dict[str, list[list[bytes]]] = {}
        self.topic_ids: dict[str, UUID] = {}
        """By topic, for topics that have one; the others are fetched by name."""
        self.leader_epoch = 0
        self.requests: list[Request[Any]] = []
        self.headers: list[RequestHeader] = []
        self.committed: dict[tuple[str, int], tuple[int, str]] = {}
        self.generation = 0
        self.connections = 0
        self.response_version: int | None = None
        """The version of the next response, if it differs from that of the request."""
        self._sequences: dict[tuple[str, int, int, int], int] = {}
        self._written: dict[tuple[Any, ...], int] = {}
        self._producer_id = 999
        self._scripts: dict[str, list[list[Any]]] = defaultdict(list)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._sockets: list[socket.socket] = []
        self._silent: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self._listener.getsockname()
        self._closed = False

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(self, *error: object) -> None:
        if self._closed:
            return
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(5)

    def cut(self) -> None:
        """Close every connection."""
        for sock in self._sockets:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def add_topic(self, name: str, partitions: int = 1) -> None:
        with self._lock:
            self.topics[name] = [[] for _ in range(partitions)]
            self._written.clear()

    def put(self, topic: str, partition: int, batch: bytes | memoryview) -> None:
        """Append a finished batch to a partition."""
        with self._changed:
            log = self.topics[topic][partition]
            data = bytearray(batch)
            assign(data, 0, self.end(topic, partition), self.leader_epoch)
            log.append(bytes(data))
            self._changed.notify_all()

    def end(self, topic: str, partition: int) -> int:
        log = self.topics[topic][partition]
        return read_header(log[-1]).next_offset if log else 0

    def on(self, request: type[Request[Any]], handler: Handler, times: int = 1) -> None:
        """Let `handler(request)` respond to the next `times` requests; if it returns None, the broker responds."""
        self._scripts[request.NAME].append([handler, times])

    def requests_of(self, request: type[Any]) -> list[Any]:
        """Return the requests of one type so far."""
        with self._lock:
            return [r for r in self.requests if type(r) is request]

    def wait_for(self, condition: Callable[[], bool], timeout: float = 10) -> None:
        """Wait until a condition is true."""
        with self._changed:
            assert self._changed.wait_for(condition, timeout), "the condition was not met in time"

    # Connections

    def _spawn(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(sock)
            self.connections += 1
            self._spawn(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        frames = FrameReader(100 * 1024 * 1024)
        with sock:
            while True:
                try:
                    count = sock.recv_into(frames.space())
                except OSError:
                    return
                if not count:
                    return
                for frame in frames.received(count):
                    if not self._handle(sock, bytes(frame)):
                        return

    def _handle(self, sock: socket.socket, frame: bytes) -> bool:
        header, pos = decode_request_header(frame)
        row = api(header.api_key)
        request: Any = decode(row.request, frame, header.api_version, pos)
        with self._changed:
            self.requests.append(request)
            self.headers.append(header)
            response = self._respond(request, header)
            self._changed.notify_all()
        if response is DROP:
            return False
        if response is SILENCE and getattr(request, "acks", None) != 0:
            self._silent.add(sock)  # responses come in the order of requests, so none can follow
        if response is SILENCE or sock in self._silent:
            return True
        version = header.api_version if self.response_version is None else self.response_version
        self.response_version = None
        chunks: Any = response_frame(response, version, header.correlation_id)
        try:
            sock.sendall(b"".join(chunks))
        except OSError:
            return False
        return True

    def _respond(self, request: Any, header: RequestHeader) -> Any:
        scripts = self._scripts[request.NAME]
        while scripts:
            handler, times = scripts[0]
            scripts[0][1] -= 1
            if times <= 1:
                scripts.pop(0)
            result = handler(request)
            if result is not None:
                return result
            break
        method: Callable[[Any], Response] = getattr(self, f"_{type(request).__module__.rpartition('.')[2]}")
        if isinstance(request, metadata.MetadataRequest | fetch.FetchRequest):
            return method(request)
        return SILENCE if getattr(request, "acks", None) == 0 else method(request)

    # Responses of a broker

    def _api_versions(self, request: Any) -> Response:
        keys = [
            api_versions.ApiVersion(
                api_key=row.key,
                min_version=row.request.VERSIONS.start,
                max_version=self.max_versions.get(row.name, row.request.VERSIONS.stop - 1),
            )
            for row in APIS
        ]
        return api_versions.ApiVersionsResponse(api_keys=keys)

    def _metadata(self, request: metadata.MetadataRequest) -> Response:
        names = list(self.topics) if request.topics is None else [t.name or "" for t in request.topics]
        topics = []
        for name in names:
            partitions = [
                metadata.MetadataResponsePartition(
                    partition_index=i, leader_id=7, leader_epoch=self.leader_epoch, replica_nodes=[7], isr_nodes=[7]
                )
                for i in range(len(self.topics.get(name, ())))
            ]
            error = 0 if name in self.topics else 3
            topics.append(
                metadata.MetadataResponseTopic(
                    error_code=error, name=name, partitions=partitions, topic_id=self.topic_ids.get(name, NO_ID)
                )
            )
        brokers = [metadata.MetadataResponseBroker(node_id=7, host=self.host, port=self.port)]
        return metadata.MetadataResponse(brokers=brokers, controller_id=7, cluster_id="scripted", topics=topics)

    def _describe_cluster(self, request: Any) -> Response:
        brokers = [describe_cluster.DescribeClusterBroker(broker_id=7, host=self.host, port=self.port)]
        return describe_cluster.DescribeClusterResponse(cluster_id="scripted", controller_id=7, brokers=brokers)

    def _get_telemetry_subscriptions(self, request: Any) -> Response:
        return get_telemetry_subscriptions.GetTelemetrySubscriptionsResponse(
            client_instance_id=uuid.UUID(int=7), push_interval_ms=300_000
        )

    def _push_telemetry(self, request: Any) -> Response:
        return push_telemetry.PushTelemetryResponse()

    def _init_producer_id(self, request: Any) -> Response:
        self._producer_id += 1
        return init_producer_id.InitProducerIdResponse(producer_id=self._producer_id, producer_epoch=0)

    def _produce(self, request: produce.ProduceRequest) -> Response:
        topics = []
        for topic in request.topic_data:
            responses = []
            for p in topic.partition_data:
                assert p.records is not None
                offset = self.end(topic.name, p.index)
                existing = self._written.get(self._batch_identity(topic.name, p.index, p.records))
                if existing is not None:
                    responses.append(produce.PartitionProduceResponse(index=p.index, base_offset=existing))
                    continue
                if self._out_of_order(topic.name, p.index, p.records):
                    responses.append(produce.PartitionProduceResponse(index=p.index, error_code=45, base_offset=-1))
                    continue
                self._written[self._batch_identity(topic.name, p.index, p.records)] = offset
                for _, start, end in split(p.records):
                    self.put(topic.name, p.index, p.records[start:end])
                responses.append(produce.PartitionProduceResponse(index=p.index, base_offset=offset))
            topics.append(produce.TopicProduceResponse(name=topic.name, partition_responses=responses))
        return produce.ProduceResponse(responses=topics)

    def _batch_identity(self, topic: str, partition: int, data: memoryview) -> tuple[Any, ...]:
        """Return producer id, epoch and sequence, which identify a duplicate batch."""
        header = read_header(data)
        identity = (header.producer_id, header.producer_epoch, header.base_sequence, header.count)
        return (topic, partition, *identity) if header.producer_id >= 0 else (object(),)

    def _out_of_order(self, topic: str, partition: int, data: memoryview) -> bool:
        """Return whether the sequence of the batch leaves a gap."""
        header = read_header(data)
        if header.producer_id < 0:
            return False
        key = (topic, partition, header.producer_id, header.producer_epoch)
        if header.base_sequence != self._sequences.get(key, 0):
            return True
        self._sequences[key] = header.base_sequence + header.count
        return False

    def _fetch(self, request: fetch.FetchRequest) -> Response:
        def result() -> list[fetch.FetchableTopicResponse]:
            topics = []
            for topic in request.topics:
                name = topic.topic or next((n for n, i in self.topic_ids.items() if i == topic.topic_id), "")
                parts = [self._fetch_partition(name, p) for p in topic.partitions]
                topics.append(
                    fetch.FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=parts)
                )
            return topics

        def ready() -> bool:
            parts = [p for t in result() for p in t.partitions]
            return self._closed or any(p.error_code or (p.records and len(p.records)) for p in parts)

        self._changed.wait_for(ready, request.max_wait_ms / 1000)
        return fetch.FetchResponse(responses=result())

    def _fetch_partition(self, topic: str, p: fetch.FetchPartition) -> fetch.PartitionData:
        if topic not in self.topics:
            return fetch.PartitionData(partition_index=p.partition, error_code=100, high_watermark=-1)
        log = self.topics[topic][p.partition]
        end = self.end(topic, p.partition)
        if p.current_leader_epoch not in (-1, self.leader_epoch):
            fenced = 74 if p.current_leader_epoch < self.leader_epoch else 75
            return fetch.PartitionData(partition_index=p.partition, error_code=fenced, high_watermark=-1)
        if not 0 <= p.fetch_offset <= end:
            return fetch.PartitionData(partition_index=p.partition, error_code=1, high_watermark=-1)
        data = b"".join(b for b in log if read_header(b).next_offset > p.fetch_offset)
        return fetch.PartitionData(
            partition_index=p.partition, high_watermark=end, last_stable_offset=end, records=data
        )

    def _consumer_group_heartbeat(self, request: Any) -> Response:
        """Respond to a member that gets no partitions."""
        epoch = max(request.member_epoch, 1) if request.member_epoch >= 0 else request.member_epoch
        return consumer_group_heartbeat.ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=epoch, heartbeat_interval_ms=20
        )

    def _offset_for_leader_epoch(self, request: Any) -> Response:
        """Return the end of an epoch: the offset at which the first batch of a later epoch begins."""
        topics = []
        for topic in request.topics:
            parts = []
            for p in topic.partitions:
                headers = [read_header(b) for b in self.topics[topic.topic][p.partition]]
                upto = [h for h in headers if h.leader_epoch <= p.leader_epoch]
                epoch, end = (upto[-1].leader_epoch, upto[-1].next_offset) if upto else (-1, -1)
                parts.append(
                    offset_for_leader_epoch.EpochEndOffset(partition=p.partition, leader_epoch=epoch, end_offset=end)
                )
            topics.append(offset_for_leader_epoch.OffsetForLeaderTopicResult(topic=topic.topic, partitions=parts))
        return offset_for_leader_epoch.OffsetForLeaderEpochResponse(topics=topics)

    def _list_offsets(self, request: list_offsets.ListOffsetsRequest) -> Response:
        topics = []
        for topic in request.topics:
            parts = []
            for p in topic.partitions:
                offset, timestamp = self._lookup(topic.name, p.partition_index, p.timestamp)
                parts.append(
                    list_offsets.ListOffsetsPartitionResponse(
                        partition_index=p.partition_index,
                        offset=offset,
                        timestamp=timestamp,
                        leader_epoch=self.leader_epoch,
                    )
                )
            topics.append(list_offsets.ListOffsetsTopicResponse(name=topic.name, partitions=parts))
        return list_offsets.ListOffsetsResponse(topics=topics)

    def _lookup(self, topic: str, partition: int, timestamp: int) -> tuple[int, int]:
        if timestamp == -2:
            return 0, -1
        if timestamp == -1:
            return self.end(topic, partition), -1
        for batch in self.topics[topic][partition]:
            header = read_header(batch)
            if header.max_timestamp >= timestamp:
                return header.base_offset, header.base_timestamp
        return -1, -1

    def _find_coordinator(self, request: Any) -> Response:
        result = [
            find_coordinator.Coordinator(key=key, node_id=7, host=self.host, port=self.port)
            for key in request.coordinator_keys
        ]
        return find_coordinator.FindCoordinatorResponse(coordinators=result, node_id=7, host=self.host, port=self.port)

    def _join_group(self, request: join_group.JoinGroupRequest) -> Response:
        """Respond as a group with one member, which is its leader."""
        self.generation += 1
        member = join_group.JoinGroupResponseMember(member_id="m", metadata=request.protocols[0].metadata)
        return join_group.JoinGroupResponse(
            generation_id=self.generation,
            protocol_name=request.protocols[0].name,
            leader="m",
            member_id="m",
            members=[member],
        )

    def _sync_group(self, request: sync_group.SyncGroupRequest) -> Response:
        return sync_group.SyncGroupResponse(
            assignment=request.assignments[0].assignment if request.assignments else b""
        )

    def _heartbeat(self, request: Any) -> Response:
        return heartbeat.HeartbeatResponse()

    def _leave_group(self, request: Any) -> Response:
        return leave_group.LeaveGroupResponse()

    def _offset_commit(self, request: offset_commit.OffsetCommitRequest) -> Response:
        topics = []
        for topic in request.topics:
            parts = []
            for p in topic.partitions:
                self.committed[(topic.name, p.partition_index)] = (p.committed_offset, p.committed_metadata or "")
                parts.append(offset_commit.OffsetCommitResponsePartition(partition_index=p.partition_index))
            topics.append(offset_commit.OffsetCommitResponseTopic(name=topic.name, partitions=parts))
        return offset_commit.OffsetCommitResponse(topics=topics)

    def _offset_fetch(self, request: offset_fetch.OffsetFetchRequest) -> Response:
        groups = []
        for group in request.groups:
            topics = []
            for topic in group.topics or ():
                parts = []
                for index in topic.partition_indexes:
                    offset, text = self.committed.get((topic.name, index), (-1, ""))
                    parts.append(
                        offset_fetch.OffsetFetchResponsePartitions(
                            partition_index=index, committed_offset=offset, metadata=text
                        )
                    )
                topics.append(offset_fetch.OffsetFetchResponseTopics(name=topic.name, partitions=parts))
            groups.append(offset_fetch.OffsetFetchResponseGroup(group_id=group.group_id, topics=topics))
        return offset_fetch.OffsetFetchResponse(groups=groups)

    def _create_topics(self, request: create_topics.CreateTopicsRequest) -> Response:
        results = []
        for topic in request.topics:
            exists = topic.name in self.topics
            if not exists:
                self.add_topic(topic.name, max(1, topic.num_partitions))
            results.append(create_topics.CreatableTopicResult(name=topic.name, error_code=36 if exists else 0))
        return create_topics.CreateTopicsResponse(topics=results)
