"""Requests for existing and missing resources, filled in for every API and version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

from tests.unit.broker.authorization import (
    codes,
)
from tests.unit.broker.broker_client import BrokerClient, batch
from tests.unit.broker.produce_and_fetch import create, produce

from ottla.protocol.fields import ZERO_UUID, Field
from ottla.protocol.message import Request, Struct
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

EXISTING, MISSING = "t", "m"
"""The names of an existing and of a missing topic, group and transactional id."""
MISSING_ID = UUID(int=7)
NAMES = frozenset(
    {
        "coordinator_keys",
        "entity_name",
        "group",
        "group_id",
        "group_ids",
        "groups",
        "groups_names",
        "key",
        "name",
        "resource_name",
        "subscribed_topic_names",
        "topic",
        "topic_name",
        "topic_names",
        "topics",
        "transactional_id",
        "transactional_ids",
        "user",
    }
)
"""String fields that name a resource."""
VALUES: dict[str, Any] = {
    "acks": -1,
    "assignments": [],
    "entity_type": "user",
    "max_wait_ms": 0,
    "member_id": "8Y0DOsW0TnCzeCpKbsdj7g",
    "num_partitions": 1,
    "operation": 3,
    "permission_type": 3,
    "protocol_type": "consumer",
    "replica_id": -1,
    "replication_factor": 1,
    "resource_pattern_type": 3,
    "resource_type": 2,
    "session_epoch": -1,
    "types_filter": [],
    "states_filter": [],
    "state_filters": [],
    "producer_id_filters": [],
}
"""Values of other fields, with which the request has an effect if it is authorized."""


class Target(NamedTuple):
    """The resource of a request: its name, and its topic id, which replaces the name in versions that have only one."""

    name: str
    topic_id: UUID


async def prepare(client: BrokerClient) -> UUID:
    """Create a topic with a record, a group with an offset, and a transactional id."""
    await create(client, EXISTING)
    await produce(client, batch(b"v"), EXISTING)
    await client.request(FindCoordinatorRequest(key=EXISTING), 3)
    await client.request(FindCoordinatorRequest(key=EXISTING, key_type=1), 3)
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
    offset_commit = OffsetCommitRequest(
        group_id=EXISTING, topics=[OffsetCommitRequestTopic(name=EXISTING, partitions=[offset])]
    )
    assert codes(await client.request(offset_commit, 8)) == set()
    request = InitProducerIdRequest(transactional_id=EXISTING, transaction_timeout_ms=1000)
    assert (await client.request(request, 4)).error_code == 0
    return client.context.image.topics[EXISTING].id


def fill(kind: type[Request[Any]], version: int, target: Target) -> Request[Any]:
    """Return a request with one item in each array."""
    return kind(**dict(_filled(kind, version, target)))


def _filled(kind: type[Struct], version: int, target: Target) -> Iterator[tuple[str, Any]]:
    has_id = any(field.name == "topic_id" and field.in_version(version) for field in kind.FIELDS)
    has_id = has_id and target.topic_id != ZERO_UUID
    for field in kind.FIELDS:
        if field.in_version(version) and field.tag is None:
            value = VALUES[field.name] if field.name in VALUES else _value(field, field.name, version, target)
            yield field.name, None if has_id and field.name == "name" else value


def _value(field: Field, name: str, version: int, target: Target) -> Any:
    if field.kind == "array":
        element = field.element
        return [
            _value(element, name, version, target) if isinstance(element, Field) else _struct(element, version, target)
        ]
    if field.kind == "struct":
        return None if field.nullable_in(version) else _struct(field.element, version, target)
    if field.kind == "string" and name in NAMES:
        return target.name
    if field.kind == "uuid" and name == "topic_id":
        return target.topic_id
    return batch(b"v") if field.kind == "records" else field.default


def _struct(element: type[Struct], version: int, target: Target) -> Struct:
    return element(**dict(_filled(element, version, target)))
