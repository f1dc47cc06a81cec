"""Requests that are handled in parts, whose responses equal those of requests handled at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, with_broker
from tests.unit.broker.large_requests import large
from tests.unit.broker.produce_and_fetch import create

from ottla.broker import request_parts
from ottla.broker.apis import SUPPORTED_APIS
from ottla.errors import InvalidRequestError
from ottla.protocol.message import Struct, decode, decode_in_slices, encode, encode_chunks_in_slices
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

IN_PARTS = [
    (row, version, path)
    for row in SUPPORTED_APIS
    for versions in [row.versions(in_cluster=True)]
    for version in sorted({versions[0], (versions[0] + versions[-1]) // 2, versions[-1]})
    for path in row.parts
    if all(_ is not None for _ in path) and row.name != "Produce"
]


def _declared(row: Any, version: int, path: str) -> bool:
    cls: Any = row.api.request
    for name in path.split("."):
        field = next((f for f in cls.FIELDS if f.name == name), None)
        if field is None or not field.in_version(version):
            return False
        cls = field.element
    return True


CASES = [(row, version, path) for row, version, path in IN_PARTS if _declared(row, version, path)]


VARYING = {"total_bytes", "usable_bytes"}
"""Free space of the disk, which other processes change."""


def canonical(value: Any) -> Any:
    """Return a response in a form that does not depend on the order of its items."""
    if isinstance(value, Struct):
        names = [f.name for f in value.FIELDS if f.name not in VARYING]
        return type(value).__name__, tuple((name, canonical(getattr(value, name))) for name in names)
    if isinstance(value, list):
        return sorted(map(repr, map(canonical, value)))
    return value


@pytest.mark.parametrize(
    ("row", "version", "path"), CASES, ids=lambda value: value.name if hasattr(value, "name") else str(value)
)
def test_response_to_a_request_in_parts_equals_that_to_the_whole(
    row: Any, version: int, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "kept" if row.name == "DeleteTopics" else "t0", 3)
        request = large(row.api.request, version, tuple(path.split(".")), 60, distinct=True)
        whole = await client.request(request, version)
        monkeypatch.setattr(request_parts, "PART_ITEMS", 4)
        monkeypatch.setattr(request_parts, "MAX_PART_ITEMS", 7)
        parts = await client.request(request, version)
        assert canonical(parts) == canonical(whole)

    monkeypatch.setattr(request_parts, "PART_ITEMS", 1000)
    with_broker(test, tmp_path, auto_create_topics_enable="false")


def test_duplicate_items_of_a_long_request_are_answered_at_most_twice(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        requested = [DescribeConfigsResource(resource_type=2, resource_name="t") for _ in range(2000)]
        response = await client.request(DescribeConfigsRequest(resources=requested), 4)
        assert len(response.results) == 2
        topics = [CreatableTopic(name=f"n{n % 20}", num_partitions=1, replication_factor=1) for n in range(40)]
        created = await client.request(CreateTopicsRequest(topics=topics, timeout_ms=1000), 5)
        assert {t.error_code for t in created.topics} == {InvalidRequestError.code}

    with_broker(test, tmp_path)


def test_produce_to_many_partitions_in_parts_keeps_all_records(tmp_path: Path) -> None:
    from tests.unit.broker.broker_client import batch

    async def test(client: BrokerClient) -> None:
        await create(client, "t", 50)
        partitions = [PartitionProduceData(index=i, records=memoryview(batch(b"%d" % i))) for i in range(50)]
        request = ProduceRequest(
            acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=partitions)]
        )
        response = await client.request(request, 9)
        assert [(p.index, p.error_code, p.base_offset) for p in response.responses[0].partition_responses] == [
            (i, 0, 0) for i in range(50)
        ]

    with_broker(test, tmp_path)


@pytest.mark.parametrize("row", [row for row in SUPPORTED_APIS if row.parts], ids=lambda row: row.name)
def test_codecs_in_slices_equal_the_ordinary_codecs(row: Any) -> None:
    for version in row.versions(in_cluster=True):
        for path in row.parts:
            if not _declared(row, version, path):
                continue
            request = large(row.api.request, version, tuple(path.split(".")), 700, distinct=True)
            data = encode(request, version)
            steps, count = decode_in_slices(type(request), memoryview(data), version, 0, 10_000), 0
            actual = None
            while actual is None:
                try:
                    next(steps)
                    count += 1
                except StopIteration as stop:
                    actual = stop.value
            assert actual == decode(type(request), data, version)
            assert count or row.name in {"ListPartitionReassignments"} or not isinstance(_leaf(request, path), Struct)
            out = bytearray()
            writing = encode_chunks_in_slices(request, version, out)
            for _ in writing:
                pass
            assert out == data or any(f.kind == "records" for f in row.api.request.FIELDS) or row.name == "Produce"


def _leaf(request: Any, path: str) -> Any:
    for name in path.split("."):
        request = getattr(request, name)[0]
    return request
