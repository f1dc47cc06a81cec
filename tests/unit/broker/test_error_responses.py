"""A request that fails as a whole is answered at each of its items, where the response has no error of its own."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.broker.allowing import codes, with_items

from ottla.broker.apis import SUPPORTED_APIS, ApiEntry
from ottla.broker.error_responses import error_response
from ottla.errors import ClusterAuthorizationFailedError
from ottla.protocol.message import Struct, decode, encode

DENIED = ClusterAuthorizationFailedError("denied")
TWO_LEVELS = {  # the arrays of request and response, and the fields that say which item is meant
    "Produce": ("topic_data.partition_data", "responses.partition_responses", ("name", "topic_id"), ("index", "index")),
    "OffsetCommit": ("topics.partitions", "topics.partitions", ("name", "topic_id"), ("partition_index",) * 2),
    "WriteShareGroupState": ("topics.partitions", "results.partitions", ("topic_id",), ("partition", "partition")),
    "OffsetForLeaderEpoch": ("topics.partitions", "topics.partitions", ("topic",), ("partition", "partition")),
}
ONE_LEVEL = {
    "DescribeGroups": ("groups", "groups", None, "group_id"),
    "DeleteGroups": ("groups_names", "results", None, "group_id"),
    "CreateTopics": ("topics", "topics", "name", "name"),
    "AlterUserScramCredentials": ("deletions", "results", "name", "user"),
    "IncrementalAlterConfigs": ("resources", "responses", "resource_name", "resource_name"),
}


def answered(row: ApiEntry, request: Any, version: int) -> Any:
    response = row.api.response
    answer = error_response(row.name, response, request, version, DENIED)
    return decode(response, bytes(encode(answer, version)), version)


@pytest.mark.parametrize("row", SUPPORTED_APIS, ids=lambda row: row.name)
def test_every_response_has_the_error(row: ApiEntry) -> None:
    for version in row.versions(in_cluster=True):
        assert codes(answered(row, with_items(row.api.request, version), version)) == {31}, version


@pytest.mark.parametrize("name", TWO_LEVELS)
def test_partitions_of_the_request_are_those_of_the_response(name: str) -> None:
    row = next(row for row in SUPPORTED_APIS if row.name == name)
    requested, answers, identity, (number, answered_number) = TWO_LEVELS[name]
    for version in row.versions(in_cluster=True):
        request = with_items(row.api.request, version)
        topic, partition = items(request, requested)
        topic_answer, partition_answer = items(answered(row, request, version), answers)
        for field in identity:
            assert getattr(topic_answer, field) == getattr(topic, field), version
        assert getattr(partition_answer, answered_number) == getattr(partition, number) > 0


@pytest.mark.parametrize("name", ONE_LEVEL)
def test_items_of_the_request_are_those_of_the_response(name: str) -> None:
    row = next(row for row in SUPPORTED_APIS if row.name == name)
    requested, answers, field, answered_field = ONE_LEVEL[name]
    for version in row.versions(in_cluster=True):
        request = with_items(row.api.request, version)
        (item,) = items(request, requested)
        result = getattr(answered(row, request, version), answers)[0]
        assert getattr(result, answered_field) == (item if field is None else getattr(item, field))


def test_quotas_are_answered_with_their_entities() -> None:
    row = next(row for row in SUPPORTED_APIS if row.name == "AlterClientQuotas")
    request = with_items(row.api.request, 1)
    (entry,) = answered(row, request, 1).entries
    (entity,) = request.entries[0].entity
    assert (entry.entity[0].entity_type, entry.entity[0].entity_name) == (entity.entity_type, entity.entity_name)
    assert entry.error_message == "denied"


def test_directories_are_answered_with_their_partitions() -> None:
    row = next(row for row in SUPPORTED_APIS if row.name == "AlterReplicaLogDirs")
    request = with_items(row.api.request, 2)
    (topic,) = request.dirs[0].topics
    (result,) = answered(row, request, 2).results
    assert (result.topic_name, result.partitions[0].partition_index) == (topic.name, topic.partitions[0])


def items(message: Struct, path: str) -> list[Any]:
    """The first items of nested arrays."""
    nested = []
    at: Any = message
    for name in path.split("."):
        at = getattr(at, name)[0]
        nested.append(at)
    return nested
