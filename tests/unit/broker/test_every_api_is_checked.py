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


class Refused(NamedTuple):
    """What an API answers to who may do nothing."""

    code: int | None
    """None: no error, but an empty response."""
    since: int = 0
    """The first version with a field for it; earlier ones return nothing."""


TOPIC, GROUP, CLUSTER = Refused(TOPIC_REFUSED), Refused(GROUP_REFUSED), Refused(CLUSTER_REFUSED)
TRANSACTIONAL_ID = Refused(TRANSACTIONAL_ID_REFUSED)
LEFT_OUT = Refused(None)
NO_TOKENS = Refused(DelegationTokenRequestNotAllowedError.code)
"""Answered to everybody on a listener without authentication."""

ANSWERS: dict[str, Refused] = {
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
    "DescribeLogDirs": Refused(CLUSTER_REFUSED, since=3),
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
    "CreateDelegationToken": NO_TOKENS,
    "RenewDelegationToken": NO_TOKENS,
    "ExpireDelegationToken": NO_TOKENS,
    "DescribeDelegationToken": NO_TOKENS,
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
"""What who may do nothing is answered."""

EVERYBODY = {
    "ApiVersions": "the first words, before it is known who asks",
    "SaslHandshake": "how it becomes known who asks",
    "SaslAuthenticate": "how it becomes known who asks",
    "DescribeCluster": "where the brokers are, as in Metadata; only what may be done with the cluster is held back",
    "GetTelemetrySubscriptions": "clients send metrics of themselves (KIP-714)",
    "PushTelemetry": "clients send metrics of themselves (KIP-714)",
}
"""What may be asked by everybody, and why."""

DISCONNECTED = {
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
}
"""Only brokers may send them, and their responses have no field for that error: test_inter_broker_apis."""

BETWEEN_BROKERS_SINCE = {"AddPartitionsToTxn": 4}
"""Versions that only brokers send: to act for the cluster is what they need."""

ID_OR_NAME_SINCE = {"Metadata": 12, "DeleteTopics": 6}
"""APIs that name topics one way or the other from a version on; with others, the version says which."""


def test_every_api_has_its_row() -> None:
    assert ANSWERS.keys() | EVERYBODY.keys() | DISCONNECTED == {served.name for served in SUPPORTED_APIS}
    assert not ANSWERS.keys() & EVERYBODY.keys()


@pytest.mark.parametrize("name", ANSWERS)
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


async def check(client: Asker, name: str, version: int, there: About, missing: About) -> None:
    kind = BY_NAME[name].request
    answer = await client.ask(fill(kind, version, there), version)
    expected = CLUSTER if version >= BETWEEN_BROKERS_SINCE.get(name, version + 1) else ANSWERS[name]
    needed = {expected.code} if expected.code is not None and version >= expected.since else set()
    assert codes(answer) == needed, (version, answer)
    if there.topic_id != ZERO_UUID and str(there.topic_id) in repr(answer):
        # an id is not secret, and may be reported as unknown; but its name is not returned
        assert f"'{THERE}'" not in repr(answer), (version, answer)
    else:
        other = await client.ask(fill(kind, version, missing), version)
        assert repr(answer).replace(f"'{THERE}'", f"'{MISSING}'") == repr(other), version


def state(client: Asker) -> tuple[object, ...]:
    """What requests could change."""
    image, log = client.context.image, client.context.partitions.get_leader(TopicPartition(THERE, 0))
    assert log is not None
    return image.topics, image.configs, image.features, log.log.log_start_offset, log.log.log_end_offset
