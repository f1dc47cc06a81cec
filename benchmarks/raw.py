"""A lightweight client that encodes requests once and hardly decodes responses, so that it is not the bottleneck."""

from __future__ import annotations

import select
import selectors
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import NamedTuple

from ottla.protocol.message import decode, encode
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.records import compression
from ottla.records.batch import split
from ottla.records.builder import BatchBuilder

PRODUCE_VERSION, FETCH_VERSION, CREATE_VERSION, DELETE_VERSION, OFFSETS_VERSION = 7, 11, 4, 3, 5
IN_FLIGHT = 5
FETCH_BYTES = 10 * 1024 * 1024
NO_CONFIGS: Mapping[str, str] = {}


class Done(NamedTuple):
    """The bytes and seconds of a load."""

    records: int
    bytes: int
    seconds: float


class Batch(NamedTuple):
    """An encoded batch of records."""

    data: bytes
    records: int
    plain_bytes: int
    """Its size without compression."""


class Raw:
    """A blocking connection to a broker."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self._sock = tls.wrap_socket(self._sock)
        self._buffer = bytearray(FETCH_BYTES * 2)

    def close(self) -> None:
        self._sock.close()

    def create(self, topic: str, partitions: int, configs: Mapping[str, str] = NO_CONFIGS) -> None:
        pairs = [CreatableTopicConfig(name=name, value=value) for name, value in configs.items()]
        new = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=pairs)
        request = CreateTopicsRequest(topics=[new], timeout_ms=30_000)
        self.send(19, CREATE_VERSION, encode(request, CREATE_VERSION))
        answer = decode(CreateTopicsResponse, self.receive(), CREATE_VERSION, 4)
        assert answer.topics[0].error_code == 0, answer
        deadline = time.monotonic() + 30
        while any(self.end_offset(topic, p) is None for p in range(partitions)):
            assert time.monotonic() < deadline, "the topic did not come up"
            time.sleep(0.05)

    def delete(self, topic: str) -> None:
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000)
        self.send(20, DELETE_VERSION, encode(request, DELETE_VERSION))
        self.receive()

    def end_offset(self, topic: str, partition: int) -> int | None:
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=-1)])
            ],
        )
        self.send(2, OFFSETS_VERSION, encode(request, OFFSETS_VERSION))
        partition_response = decode(ListOffsetsResponse, self.receive(), OFFSETS_VERSION, 4).topics[0].partitions[0]
        return None if partition_response.error_code else partition_response.offset

    def produce(
        self, topic: str, partitions: int, batch: Batch, rounds: int, at_once: int | None = None, acks: int = -1
    ) -> Done:
        """Send the same batch to every partition, `rounds` times, with five requests in flight.

        A request has `at_once` batches, by default one for each partition. Bytes are counted before compression.
        """
        at_once = at_once or partitions
        bodies = [
            produce_body(topic, range(first, min(first + at_once, partitions)), batch.data, acks)
            for first in range(0, partitions, at_once)
        ]
        began = time.perf_counter()
        waiting = 0
        for _ in range(rounds):
            for body in bodies:
                if waiting == IN_FLIGHT:
                    self.check(self.receive())
                    waiting -= 1
                self.send(0, PRODUCE_VERSION, body)
                waiting += 1
        for _ in range(waiting):
            self.check(self.receive())
        batches = rounds * partitions
        return Done(batches * batch.records, batches * batch.plain_bytes, time.perf_counter() - began)

    def consume(self, topic: str, partitions: int, seconds: float) -> Done:
        """Read the topic from its beginning, repeatedly for some seconds. Only batch headers are decoded."""
        ends = {p: self.end_offset(topic, p) or 0 for p in range(partitions)}
        began = time.perf_counter()
        records = size = 0
        while time.perf_counter() - began < seconds:
            offsets = dict.fromkeys(range(partitions), 0)
            while any(offsets[p] < ends[p] for p in offsets):
                to_fetch = [
                    FetchPartition(partition=p, fetch_offset=o, partition_max_bytes=FETCH_BYTES // partitions)
                    for p, o in offsets.items()
                    if o < ends[p]
                ]
                request = FetchRequest(
                    max_wait_ms=500,
                    min_bytes=1,
                    max_bytes=FETCH_BYTES,
                    topics=[FetchTopic(topic=topic, partitions=to_fetch)],
                )
                self.send(1, FETCH_VERSION, encode(request, FETCH_VERSION))
                answer = decode(FetchResponse, self.receive(), FETCH_VERSION, 4)
                for data in answer.responses[0].partitions:
                    for header, start, end in split(data.records or b""):
                        offsets[data.partition_index] = header.next_offset
                        records += header.count
                        size += end - start
        return Done(records, size, time.perf_counter() - began)

    def send(self, key: int, version: int, body: bytes | bytearray) -> None:
        header = request_header(key, version, body)
        if isinstance(self._sock, ssl.SSLSocket):  # has no sendmsg
            self._sock.sendall(header)
            self._sock.sendall(body)
        else:
            self._sock.sendmsg([header, body])

    def receive(self) -> memoryview:
        view = memoryview(self._buffer)
        self._fill(view[:4])
        size = int.from_bytes(view[:4], "big")
        if size > len(view):
            self._buffer = bytearray(size)
            view = memoryview(self._buffer)
        self._fill(view[:size])
        return view[:size]

    def _fill(self, view: memoryview) -> None:
        got = 0
        while got < len(view):
            n = self._sock.recv_into(view[got:])
            assert n, "the broker closed the connection"
            got += n

    def check(self, frame: memoryview) -> None:
        answer = decode(ProduceResponse, frame, PRODUCE_VERSION, 4)
        for topic in answer.responses:
            for partition in topic.partition_responses:
                assert partition.error_code == 0, partition


class Connection:
    """A non-blocking connection, with the due times of its requests in flight."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.due: deque[float] = deque()
        self._received = bytearray()

    def read(self, taken: list[float]) -> None:
        """Read responses, and add their latencies in milliseconds."""
        chunk = self.sock.recv(65_536)
        assert chunk, "the broker closed the connection"
        now = time.perf_counter()
        self._received += chunk
        while len(self._received) >= 4:
            end = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < end:
                return
            answer = decode(ProduceResponse, memoryview(bytes(self._received[4:end])), PRODUCE_VERSION, 4)
            assert not answer.responses[0].partition_responses[0].error_code, answer
            del self._received[:end]
            taken.append((now - self.due.popleft()) * 1000)


def fixed_rate(links: Sequence[Connection], topic: str, batch: Batch, per_second: float, seconds: float) -> list[float]:
    """Send a batch at each due time, to the connections in turns, and return milliseconds from due to acknowledged.

    A request is sent when it is due, whether earlier ones are answered or not, and is late from then on: a broker that
    stalls is charged for every request of that time.
    """
    body = produce_body(topic, [0], batch.data)
    frame = request_header(0, PRODUCE_VERSION, body) + body
    taken: list[float] = []
    with selectors.DefaultSelector() as selector:
        for link in links:
            selector.register(link.sock, selectors.EVENT_READ, link)
        count = int(per_second * seconds)
        began, sent = time.perf_counter(), 0
        while len(taken) < count:
            now = time.perf_counter()
            while sent < count and (due := began + sent / per_second) <= now:
                link = links[sent % len(links)]
                link.due.append(due)
                link.sock.sendall(frame)
                sent += 1
            # epoll counts in milliseconds, select in microseconds
            left = max(0.0, began + sent / per_second - time.perf_counter()) if sent < count else 1.0
            select.select([selector.fileno()], [], [], left)
            for key, _ in selector.select(0):
                key.data.read(taken)
    return taken


def produce_at_fixed_rate(port: int, topic: str, batch: Batch, per_second: float, seconds: float) -> list[float]:
    """Do the same with a new connection, for use in another process."""
    return fixed_rate([Connection(port)], topic, batch, per_second, seconds)


def request_header(key: int, version: int, body: bytes | bytearray) -> bytes:
    return struct.pack(">ihhihs", 4 + 4 + 3 + len(body), key, version, 1, 1, b"b")


def produce_body(topic: str, partitions: Iterable[int], batch: bytes, acks: int = -1) -> bytes:
    data = [PartitionProduceData(index=p, records=batch) for p in partitions]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    request = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics)
    return bytes(encode(request, PRODUCE_VERSION))


def batch_of(record_bytes: int, batch_bytes: int, codec: int = compression.NONE) -> Batch:
    """Return a batch of records with hexadecimal digits, which compress to somewhat over a half."""
    plain = _batch(record_bytes, batch_bytes, compression.NONE)
    if codec == compression.NONE:
        return plain
    return _batch(record_bytes, batch_bytes, codec)._replace(plain_bytes=plain.plain_bytes)


def _batch(record_bytes: int, batch_bytes: int, codec: int) -> Batch:
    random = Random(1)
    builder = BatchBuilder(bytearray(batch_bytes), codec)
    now = time.time_ns() // 1_000_000
    while builder.append(now, None, random.randbytes(record_bytes // 2).hex().encode()):
        pass
    data = bytes(builder.close())
    return Batch(data, builder.record_count, len(data))
