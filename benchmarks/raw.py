"""The cheapest client there is: requests encoded once, answers hardly looked at: the broker is what is measured."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable
from typing import NamedTuple

from ottla.protocol.message import decode, encode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.records.batch import split
from ottla.records.builder import BatchBuilder

PRODUCE_VERSION, FETCH_VERSION, CREATE_VERSION, OFFSETS_VERSION = 7, 11, 4, 5
IN_FLIGHT = 5
FETCH_BYTES = 10 * 1024 * 1024


class Done(NamedTuple):
    """What a load moved, and how long it took."""

    records: int
    bytes: int
    seconds: float


class Raw:
    """One connection to a broker."""

    def __init__(self, port: int) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(FETCH_BYTES * 2)

    def close(self) -> None:
        self._sock.close()

    def create(self, topic: str, partitions: int) -> None:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)], timeout_ms=30_000
        )
        self.send(19, CREATE_VERSION, encode(request, CREATE_VERSION))
        answer = decode(CreateTopicsResponse, self.receive(), CREATE_VERSION, 4)
        assert answer.topics[0].error_code == 0, answer
        deadline = time.monotonic() + 30
        while any(self.end_offset(topic, p) is None for p in range(partitions)):
            assert time.monotonic() < deadline, "the topic did not come up"
            time.sleep(0.05)

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
        self, topic: str, partitions: int, batch: bytes, per_batch: int, rounds: int, at_once: int | None = None
    ) -> Done:
        """Send the same batch to every partition, `rounds` times, with acks=all and five requests in flight.

        `at_once` batches go in one request, by default one for each partition.
        """
        at_once = at_once or partitions
        bodies = [
            produce_body(topic, range(first, min(first + at_once, partitions)), batch)
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
        return Done(rounds * partitions * per_batch, rounds * partitions * len(batch), time.perf_counter() - began)

    def consume(self, topic: str, partitions: int, seconds: float) -> Done:
        """Read the topic from its beginning, again and again for so long; only batch headers are looked at."""
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

    def latencies(self, topic: str, batch: bytes, per_second: int, seconds: float) -> list[float]:
        """Milliseconds from send to acknowledgement of single batches at a fixed rate."""
        body = produce_body(topic, range(1), batch)
        taken = []
        began = time.perf_counter()
        for i in range(int(per_second * seconds)):
            due = began + i / per_second
            while (now := time.perf_counter()) < due:
                time.sleep(min(0.0005, due - now))
            self.send(0, PRODUCE_VERSION, body)
            self.check(self.receive())
            taken.append((time.perf_counter() - now) * 1000)
        return taken

    def send(self, key: int, version: int, body: bytes | bytearray) -> None:
        header = struct.pack(">ihhihs", 4 + 4 + 3 + len(body), key, version, 1, 1, b"b")
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


def produce_body(topic: str, partitions: Iterable[int], batch: bytes) -> bytes:
    data = [PartitionProduceData(index=p, records=batch) for p in partitions]
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])
    return bytes(encode(request, PRODUCE_VERSION))


def batch_of(record_bytes: int, batch_bytes: int) -> tuple[bytes, int]:
    """A batch of records of this size, and how many they are."""
    builder = BatchBuilder(bytearray(batch_bytes))
    value = (b'{"user":"u%06d","event":"view","path":"/shop/items"}' % 7 * (1 + record_bytes // 40))[:record_bytes]
    now = time.time_ns() // 1_000_000
    while builder.append(now, None, value):
        pass
    return bytes(builder.close()), builder.record_count
