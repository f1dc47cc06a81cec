"""A client without rights is denied by every API in every version, and cannot find out whether a resource exists."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from tests.unit.broker.allowing import (
    CLUSTER_REFUSED,
    GROUP_REFUSED,
    TOPIC_REFUSED,
    TRANSACTIONAL_ID_REFUSED,
    codes,
    only,
    with_rules,
)
from tests.unit.broker.asking import Asker
from tests.unit.broker.filled_requests import (
    MISSING,
    MISSING_ID,
    THERE,
    About,
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


TOPIC, GROUP, CLUSTER = Denial(TOPIC_REFUSED), Denial(GROUP_REFUSED), Denial(CLUSTER_REFUSED)
TRANSACTIONAL_ID = Denial(TRANSACTIONAL_ID_REFUSED)
LEFT_OUT = Denial(None)
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
    "ListGroups": LEFT_OUT,
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
    "DescribeLogDirs": Denial(CLUSTER_REFUSED, since=3),
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
    "ListTransactions": LEFT_OUT,
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
    assert DENIALS.keys() | PUBLIC_APIS.keys() | DISCONNECTED == {served.name for served in SUPPORTED_APIS}
    assert not DENIALS.keys() & PUBLIC_APIS.keys()


@pytest.mark.parametrize("name", DENIALS)
def test_client_without_rights_gets_no_information(name: str, tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        topic_id = await prepare(client)
        before = state(client)
        served = BY_KEY[BY_NAME[name].key]
        only(client)  # nothing
        for version in served.versions(in_cluster=True):
            if version >= ID_OR_NAME_SINCE.get(name, 0):
                await check(client, name, version, About(THERE, topic_id), About(MISSING, MISSING_ID))
            if name in ID_OR_NAME_SINCE:
                await check(client, name, version, About(THERE, ZERO_UUID), About(MISSING, ZERO_UUID))
        assert state(client) == before

    with_rules(test, tmp_path)


def test_cluster_is_described_to_a_client_without_rights(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        only(client)
        api = BY_NAME["DescribeCluster"]
        for version in BY_KEY[api.key].versions(in_cluster=True):
            answer = await client.ask(fill(api.request, version, About(THERE, ZERO_UUID)), version)
            assert codes(answer) == set(), version

    with_rules(test, tmp_path)


async def check(client: Asker, name: str, version: int, there: About, missing: About) -> None:
    kind = BY_NAME[name].request
    answer = await client.ask(fill(kind, version, there), version)
    expected = CLUSTER if version >= BETWEEN_BROKERS_SINCE.get(name, version + 1) else DENIALS[name]
    needed = {expected.code} if expected.code is not None and version >= expected.since else set()
    assert codes(answer) == needed, (version, answer)
    if there.topic_id != ZERO_UUID and str(there.topic_id) in repr(answer):
        # an id is not secret, and may be reported as unknown; but its name is not returned
        assert f"'{THERE}'" not in repr(answer), (version, answer)
    else:
        other = await client.ask(fill(kind, version, missing), version)
        assert repr(answer).replace(f"'{THERE}'", f"'{MISSING}'") == repr(other), version


def state(client: Asker) -> tuple[object, ...]:
    """Return the state that requests could change."""
    image, log = client.context.image, client.context.partitions.get_leader(TopicPartition(THERE, 0))
    assert log is not None
    return image.topics, image.configs, image.features, log.log.log_start_offset, log.log.log_end_offset
