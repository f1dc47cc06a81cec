"""A client without rights is denied by every API in every version, and cannot find out whether a resource exists."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from tests.unit.broker.authorization import (
    CLUSTER_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    allow_only,
    codes,
    with_authorizer,
)
from tests.unit.broker.broker_client import BrokerClient
from tests.unit.broker.filled_requests import (
    EXISTING,
    MISSING,
    MISSING_ID,
    Target,
    fill,
    prepare,
)

from ottla.broker.apis import BY_KEY, SUPPORTED_APIS
from ottla.errors import DelegationTokenRequestNotAllowedError
from ottla.model import TopicPartition
from ottla.protocol.apis import BY_NAME
from ottla.protocol.fields import ZERO_UUID


class Denial(NamedTuple):
    """The response of an API to a client without rights."""

    code: int | None
    """None: no error, but an empty response."""
    since: int = 0
    """The first version with a field for it; earlier ones return nothing."""


TOPIC, GROUP, CLUSTER = (
    Denial(TOPIC_AUTHORIZATION_FAILED),
    Denial(GROUP_AUTHORIZATION_FAILED),
    Denial(CLUSTER_AUTHORIZATION_FAILED),
)
TRANSACTIONAL_ID = Denial(TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
OMITTED = Denial(None)
TOKENS_NOT_ALLOWED = Denial(DelegationTokenRequestNotAllowedError.code)
"""The error of every client on a listener without authentication."""

DENIALS: dict[str, Denial] = {
    "Produce": TOPIC,
    "Fetch": TOPIC,
    "ListOffsets": TOPIC,
    "Metadata": TOPIC,
    "LeaderAndIsr": CLUSTER,
    "StopReplica": CLUSTER,
    "UpdateMetadata": CLUSTER,
    "ControlledShutdown": CLUSTER,
    "OffsetCommit": GROUP,
    "OffsetFetch": GROUP,
    "FindCoordinator": GROUP,
    "JoinGroup": GROUP,
    "Heartbeat": GROUP,
    "LeaveGroup": GROUP,
    "SyncGroup": GROUP,
    "DescribeGroups": GROUP,
    "ListGroups": OMITTED,
    "CreateTopics": TOPIC,
    "DeleteTopics": TOPIC,
    "DeleteRecords": TOPIC,
    "InitProducerId": TRANSACTIONAL_ID,
    "OffsetForLeaderEpoch": TOPIC,
    "AddPartitionsToTxn": TRANSACTIONAL_ID,
    "AddOffsetsToTxn": TRANSACTIONAL_ID,
    "EndTxn": TRANSACTIONAL_ID,
    "WriteTxnMarkers": CLUSTER,
    "TxnOffsetCommit": TRANSACTIONAL_ID,
    "DescribeConfigs": TOPIC,
    "IncrementalAlterConfigs": TOPIC,
    "AlterConfigs": TOPIC,
    "CreatePartitions": TOPIC,
    "DeleteGroups": GROUP,
    "OffsetDelete": GROUP,
    "AlterReplicaLogDirs": CLUSTER,
    "DescribeLogDirs": Denial(CLUSTER_AUTHORIZATION_FAILED, since=3),
    "DescribeClientQuotas": CLUSTER,
    "AlterClientQuotas": CLUSTER,
    "UpdateFeatures": CLUSTER,
    "ConsumerGroupHeartbeat": GROUP,
    "ConsumerGroupDescribe": GROUP,
    "ShareGroupHeartbeat": GROUP,
    "ShareGroupDescribe": GROUP,
    "StreamsGroupHeartbeat": GROUP,
    "StreamsGroupDescribe": GROUP,
    "ShareFetch": GROUP,
    "ShareAcknowledge": GROUP,
    "DescribeShareGroupOffsets": GROUP,
    "AlterShareGroupOffsets": GROUP,
    "DeleteShareGroupOffsets": GROUP,
    "DescribeProducers": TOPIC,
    "DescribeTransactions": TRANSACTIONAL_ID,
    "ListTransactions": OMITTED,
    "DescribeAcls": CLUSTER,
    "CreateAcls": CLUSTER,
    "DeleteAcls": CLUSTER,
    "CreateDelegationToken": TOKENS_NOT_ALLOWED,
    "RenewDelegationToken": TOKENS_NOT_ALLOWED,
    "ExpireDelegationToken": TOKENS_NOT_ALLOWED,
    "DescribeDelegationToken": TOKENS_NOT_ALLOWED,
    "ElectLeaders": CLUSTER,
    "AlterPartition": CLUSTER,
    "AllocateProducerIds": CLUSTER,
    "AlterPartitionReassignments": CLUSTER,
    "ListPartitionReassignments": CLUSTER,
    "DescribeUserScramCredentials": CLUSTER,
    "AlterUserScramCredentials": CLUSTER,
    "ListConfigResources": CLUSTER,
    "DescribeTopicPartitions": TOPIC,
}
"""The responses to a client without rights, by API."""

PUBLIC_APIS = {
    "ApiVersions": "sent before authentication",
    "SaslHandshake": "part of authentication",
    "SaslAuthenticate": "part of authentication",
    "DescribeCluster": "the brokers, as in Metadata; only the authorized operations on the cluster are left out",
    "GetTelemetrySubscriptions": "clients send their own metrics (KIP-714)",
    "PushTelemetry": "clients send their own metrics (KIP-714)",
}
"""APIs that need no rights, and the reasons."""

DISCONNECTED = {
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
}
"""Only brokers may send them, and their responses have no field for that error: test_inter_broker_apis."""

BETWEEN_BROKERS_SINCE = {"AddPartitionsToTxn": 4}
"""Versions that only brokers send, which require CLUSTER_ACTION on the cluster."""

ID_OR_NAME_SINCE = {"Metadata": 12, "DeleteTopics": 6}
"""APIs whose requests may identify topics by id or by name from a version on; for others, the version decides."""


def test_every_api_has_a_row() -> None:
    rows, names = DENIALS.keys() | PUBLIC_APIS.keys() | DISCONNECTED, {entry.name for entry in SUPPORTED_APIS}
    missing, unsupported = sorted(names - rows), sorted(rows - names)
    assert not missing, "add a row to DENIALS, or to PUBLIC_APIS if the API needs no rights"
    assert not unsupported, "remove the rows of APIs that the broker does not support"
    assert not DENIALS.keys() & PUBLIC_APIS.keys(), "an API that needs rights has a row in DENIALS only"


@pytest.mark.parametrize("name", DENIALS)
def test_client_without_rights_gets_no_information(name: str, tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        topic_id = await prepare(client)
        before = state(client)
        api_entry = BY_KEY[BY_NAME[name].key]
        allow_only(client)  # nothing
        for version in api_entry.versions(in_cluster=True):
            if version >= ID_OR_NAME_SINCE.get(name, 0):
                await check(client, name, version, Target(EXISTING, topic_id), Target(MISSING, MISSING_ID))
            if name in ID_OR_NAME_SINCE:
                await check(client, name, version, Target(EXISTING, ZERO_UUID), Target(MISSING, ZERO_UUID))
        assert state(client) == before

    with_authorizer(test, tmp_path)


def test_cluster_is_described_to_a_client_without_rights(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        allow_only(client)
        api = BY_NAME["DescribeCluster"]
        for version in BY_KEY[api.key].versions(in_cluster=True):
            response = await client.request(fill(api.request, version, Target(EXISTING, ZERO_UUID)), version)
            assert codes(response) == set(), (
                version,
                "if it needs a right now, move it to DENIALS, and delete this test",
            )

    with_authorizer(test, tmp_path)


async def check(client: BrokerClient, name: str, version: int, existing: Target, missing: Target) -> None:
    kind = BY_NAME[name].request
    response = await client.request(fill(kind, version, existing), version)
    expected = CLUSTER if version >= BETWEEN_BROKERS_SINCE.get(name, version + 1) else DENIALS[name]
    expected_codes = {expected.code} if expected.code is not None and version >= expected.since else set()
    assert codes(response) == expected_codes, (version, response)
    if existing.topic_id != ZERO_UUID and str(existing.topic_id) in repr(response):
        # an id is not secret, and may be reported as unknown; but its name is not returned
        assert f"'{EXISTING}'" not in repr(response), (version, response)
    else:
        other = await client.request(fill(kind, version, missing), version)
        assert repr(response).replace(f"'{EXISTING}'", f"'{MISSING}'") == repr(other), version


def state(client: BrokerClient) -> tuple[object, ...]:
    """Return the state that requests could change."""
    image, log = client.context.image, client.context.partitions.get_leader(TopicPartition(EXISTING, 0))
    assert log is not None
    return image.topics, image.configs, image.features, log.log.log_start_offset, log.log.log_end_offset
