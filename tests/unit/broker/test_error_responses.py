"""Responses to a request that fails as a whole: each item has the error if the response has no field of its own."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.broker.authorization import codes, with_items

from ottla.broker.apis import SUPPORTED_APIS, ApiEntry
from ottla.broker.error_responses import error_response
from ottla.errors import ClusterAuthorizationFailedError
from ottla.protocol.message import Struct, decode, encode

DENIED = ClusterAuthorizationFailedError("denied")
TWO_LEVELS = {  # the arrays of request and response, and the fields that identify an item
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


def error_response_to(row: ApiEntry, request: Any, version: int) -> Any:
    response = row.api.response
    message = error_response(row.name, response, request, version, DENIED)
    return decode(response, bytes(encode(message, version)), version)


@pytest.mark.parametrize("row", SUPPORTED_APIS, ids=lambda row: row.name)
def test_error_response_of_every_api_has_the_error(row: ApiEntry) -> None:
    for version in row.versions(in_cluster=True):
        assert codes(error_response_to(row, with_items(row.api.request, version), version)) == {31}, version


@pytest.mark.parametrize("name", TWO_LEVELS)
def test_error_response_has_the_partitions_of_the_request(name: str) -> None:
    row = next(row for row in SUPPORTED_APIS if row.name == name)
    request_path, response_path, identity, (number, response_number) = TWO_LEVELS[name]
    for version in row.versions(in_cluster=True):
        request = with_items(row.api.request, version)
        topic, partition = items(request, request_path)
        topic_result, partition_result = items(error_response_to(row, request, version), response_path)
        for field in identity:
            assert getattr(topic_result, field) == getattr(topic, field), version
        assert getattr(partition_result, response_number) == getattr(partition, number) > 0


@pytest.mark.parametrize("name", ONE_LEVEL)
def test_error_response_has_the_items_of_the_request(name: str) -> None:
    row = next(row for row in SUPPORTED_APIS if row.name == name)
    request_path, response_path, field, response_field = ONE_LEVEL[name]
    for version in row.versions(in_cluster=True):
        request = with_items(row.api.request, version)
        (item,) = items(request, request_path)
        result = getattr(error_response_to(row, request, version), response_path)[0]
        assert getattr(result, response_field) == (item if field is None else getattr(item, field))


def test_error_response_to_alter_client_quotas_has_the_entities() -> None:
    row = next(row for row in SUPPORTED_APIS if row.name == "AlterClientQuotas")
    request = with_items(row.api.request, 1)
    (entry,) = error_response_to(row, request, 1).entries
    (entity,) = request.entries[0].entity
    assert (entry.entity[0].entity_type, entry.entity[0].entity_name) == (entity.entity_type, entity.entity_name)
    assert entry.error_message == "denied"


def test_error_response_to_alter_replica_log_dirs_has_the_partitions() -> None:
    row = next(row for row in SUPPORTED_APIS if row.name == "AlterReplicaLogDirs")
    request = with_items(row.api.request, 2)
    (topic,) = request.dirs[0].topics
    (result,) = error_response_to(row, request, 2).results
    assert (result.topic_name, result.partitions[0].partition_index) == (topic.name, topic.partitions[0])


def items(struct: Struct, path: str) -> list[Any]:
    """Return the first items of nested arrays."""
    nested = []
    element: Any = struct
    for name in path.split("."):
        element = getattr(element, name)[0]
        nested.append(element)
    return nested
