"""Inter-broker APIs: they are rejected for clients, and validated before a name becomes a path."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.unit.broker.authorization import (
    CLUSTER_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
    allow_only,
    authenticate_as,
    codes,
    with_authorizer,
    with_items,
)
from tests.unit.broker.broker_client import SECRET, BrokerClient, batch, with_broker
from tests.unit.broker.produce_and_fetch import create, fetch_request, produce
from tests.unit.broker.transactional_producer import T0, initialized_producer, with_manual_clock

from ottla.broker.apis import SUPPORTED_APIS, ApiEntry
from ottla.clock import ManualClock
from ottla.cluster.broker.metadata_updates import INITIALIZATION_SECONDS
from ottla.cluster.interbroker.membership_proof import CHALLENGE_BYTES, MECHANISM, MEMBER, PROOF, ProofVerifier, prove
from ottla.errors import (
    IllegalSaslStateError,
    InvalidPartitionsError,
    InvalidRequestError,
    InvalidTopicError,
    InvalidTxnStateError,
    SaslAuthenticationFailedError,
    StaleControllerEpochError,
)
from ottla.model import TopicPartition
from ottla.net.server.connection import CloseConnectionError
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ottla.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

INTER_BROKER_APIS = [row for row in SUPPORTED_APIS if row.inter_broker_since is not None]


def versions(row: ApiEntry) -> range:
    assert row.inter_broker_since is not None
    return range(row.inter_broker_since, row.versions(in_cluster=True).stop)


@pytest.mark.parametrize("row", INTER_BROKER_APIS, ids=lambda row: row.name)
def test_standalone_broker_does_not_serve_inter_broker_apis(row: ApiEntry, tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        client.connection.state[MEMBER] = True
        for version in versions(row):
            with pytest.raises(CloseConnectionError, match="not served"):
                await client.request(row.api.request(), version)

    with_broker(test, tmp_path)


def test_api_versions_of_a_standalone_broker_lists_no_inter_broker_api(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        standalone = {api.api_key: api.max_version for api in (await client.request(request, 3)).api_keys}
        client.join_cluster()
        member = {api.api_key: api.max_version for api in (await client.request(request, 3)).api_keys}
        for row in INTER_BROKER_APIS:
            assert standalone.get(row.api.key, -1) == (row.inter_broker_since or 0) - 1, row.name
            assert member[row.api.key] == row.versions(in_cluster=True)[-1], row.name

    with_broker(test, tmp_path)


@pytest.mark.parametrize("row", INTER_BROKER_APIS, ids=lambda row: row.name)
def test_inter_broker_request_of_a_client_is_rejected(row: ApiEntry, tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        client.join_cluster()
        for version in versions(row):
            response = await client.request(with_items(row.api.request, version), version)
            assert codes(response) == {CLUSTER_AUTHORIZATION_FAILED}

    with_broker(test, tmp_path)


def test_inter_broker_request_is_rejected_despite_allow_everyone_if_no_acl_found(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        allow_only(client)
        request = UpdateMetadataRequest(controller_epoch=2**31 - 1)
        assert codes(await client.request(request, 8)) == {CLUSTER_AUTHORIZATION_FAILED}
        authenticate_as(client, "admin")
        assert codes(await client.request(request, 8)) == {StaleControllerEpochError.code}

    with_authorizer(test, tmp_path, allow_everyone_if_no_acl_found="true")


@pytest.mark.parametrize(("listener", "rejected"), [("PLAINTEXT", False), ("CLIENTS", True)])
def test_apache_kafka_broker_is_accepted_on_the_inter_broker_listener_only(
    tmp_path: Path, listener: str, rejected: bool
) -> None:
    async def test(client: BrokerClient) -> None:
        client.join_cluster()
        client.connection.listener = SimpleNamespace(name=listener)
        own = client.context.image.controller_epoch
        request = UpdateMetadataRequest(controller_id=0, controller_epoch=own, type=2)
        assert codes(await client.request(request, 8)) == ({CLUSTER_AUTHORIZATION_FAILED} if rejected else set())

    with_broker(test, tmp_path, apache_kafka_brokers_enable="true")


def test_fetch_of_a_client_with_a_replica_id_is_rejected(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        await produce(client, batch(b"a"))
        client.join_cluster()
        for replica_id in (0, 1):
            assert codes(await client.request(fetch_request(replica_id=replica_id), 12)) == {TOPIC_AUTHORIZATION_FAILED}
        epochs = OffsetForLeaderEpochRequest(
            replica_id=1, topics=[OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=0)])]
        )
        assert codes(await client.request(epochs, 4)) == {TOPIC_AUTHORIZATION_FAILED}
        assert not codes(await client.as_broker().request(epochs, 4))

    with_broker(test, tmp_path)


def test_fetch_of_the_replica_verification_tool_ends_at_the_high_watermark(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        await produce(client, batch(b"a"))
        client.join_cluster()
        fetched = await client.request(fetch_request(replica_id=-2), 12)
        assert not codes(fetched)
        assert fetched.responses[0].partitions[0].records
        partition = client.context.partitions.get(TopicPartition("t", 0))
        assert partition is not None
        partition.log.high_watermark = 0
        assert not (await client.request(fetch_request(replica_id=-2), 12)).responses[0].partitions[0].records

    with_broker(test, tmp_path)


def test_list_offsets_of_a_client_with_a_replica_id_ends_at_the_high_watermark(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        await produce(client, batch(b"a"))
        partition = client.context.partitions.get(TopicPartition("t", 0))
        assert partition is not None
        partition.log.high_watermark = 0
        latest = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(replica_id=1, topics=[ListOffsetsTopic(name="t", partitions=[latest])])
        assert (await client.request(request, 7)).topics[0].partitions[0].offset == 0
        assert (await client.as_broker().request(request, 7)).topics[0].partitions[0].offset == 1

    with_broker(test, tmp_path)


class DispatchChannel:
    """A channel that sends requests straight to a broker's dispatch."""

    host, port = "127.0.0.1", 9092

    def __init__(self, client: BrokerClient) -> None:
        self._client = client

    def send(self, request: Any, version: int, timeout: float) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self._client.request(request, version))


def test_broker_with_the_cluster_secret_is_served(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        client.join_cluster()
        channel: Any = DispatchChannel(client)
        assert await prove(channel, SECRET, 1)
        assert PROOF not in client.connection.state
        own = client.context.image.controller_epoch
        request = UpdateMetadataRequest(controller_id=0, controller_epoch=own, type=2)
        assert not codes(await client.request(request, 8))

    with_broker(test, tmp_path)


def test_membership_proof_does_not_wait_for_the_first_update_metadata(tmp_path: Path) -> None:
    # the controller sends it before the UpdateMetadata that initializes the broker
    async def test(client: BrokerClient) -> None:
        client.join_cluster()
        client.context.controller_requests._initialized.clear()
        channel: Any = DispatchChannel(client)
        async with asyncio.timeout(INITIALIZATION_SECONDS / 2):
            assert await prove(channel, SECRET, 1)
        client.context.controller_requests.mark_initialized()

    with_broker(test, tmp_path)


def test_broker_with_another_secret_is_rejected_by_both_sides(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        client.join_cluster()
        channel: Any = DispatchChannel(client)
        with pytest.raises(SaslAuthenticationFailedError, match="127.0.0.1:9092 does not know the secret"):
            await prove(channel, b"x" * 32, 1)
        state = client.connection.state
        state.clear()
        assert (await client.request(SaslHandshakeRequest(mechanism=MECHANISM), 1)).error_code == 0
        await client.request(SaslAuthenticateRequest(auth_bytes=b"n" * CHALLENGE_BYTES), 2)
        proof = hmac.digest(b"x" * 32, b"", "sha256")
        response = await client.request(SaslAuthenticateRequest(auth_bytes=proof), 2)
        assert response.error_code == SaslAuthenticationFailedError.code
        assert not state
        again = await client.request(SaslAuthenticateRequest(auth_bytes=proof), 2)
        assert again.error_code == IllegalSaslStateError.code

    with_broker(test, tmp_path)


def test_standalone_broker_requires_no_membership_proof(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        channel: Any = DispatchChannel(client)
        assert not await prove(channel, SECRET, 1)

    with_broker(test, tmp_path)


@pytest.mark.parametrize("message", [b"", b"short", b"x" * (CHALLENGE_BYTES + 1)])
def test_challenge_of_wrong_length_is_rejected(message: bytes) -> None:
    with pytest.raises(SaslAuthenticationFailedError, match="has 32 bytes"):
        ProofVerifier(SECRET).step(message)


def metadata(client: BrokerClient, name: str = "t", **more: Any) -> UpdateMetadataRequest:
    state = UpdateMetadataPartitionState(**{"leader": 0, "leader_epoch": 0, "isr": [0], "replicas": [0], **more})
    own = client.context.image
    return UpdateMetadataRequest(
        controller_id=own.controller_id,
        controller_epoch=own.controller_epoch,
        type=2,
        topic_states=[UpdateMetadataTopicState(topic_name=name, topic_id=UUID(int=7), partition_states=[state])],
        live_brokers=[UpdateMetadataBroker(id=0, endpoints=[UpdateMetadataEndpoint(port=9, host="h")])],
    )


Change = Callable[[BrokerClient], UpdateMetadataRequest]
INVALID_REQUESTS: dict[str, tuple[Change, int | None]] = {
    "a path": (lambda c: metadata(c, "../../../x"), InvalidTopicError.code),
    "the parent": (lambda c: metadata(c, ".."), InvalidTopicError.code),
    "no name": (lambda c: metadata(c, ""), InvalidTopicError.code),
    "a long name": (lambda c: metadata(c, "x" * 250), InvalidTopicError.code),
    "a negative partition": (lambda c: metadata(c, partition_index=-5), InvalidPartitionsError.code),
    "a partition beyond all": (lambda c: metadata(c, partition_index=2**31 - 1), InvalidPartitionsError.code),
    "a negative epoch": (lambda c: metadata(c, leader_epoch=-9), InvalidRequestError.code),
    "a negative replica": (lambda c: metadata(c, replicas=[0, -7]), InvalidRequestError.code),
}


@pytest.mark.parametrize("name", INVALID_REQUESTS)
def test_update_metadata_with_invalid_values_changes_nothing(name: str, tmp_path: Path) -> None:
    make, code = INVALID_REQUESTS[name]
    data = tmp_path / "a" / "b" / "c" / "data"
    data.mkdir(parents=True)

    async def test(client: BrokerClient) -> None:
        before = client.context.image
        assert codes(await client.as_broker().request(make(client), 8)) == {code}
        assert client.context.image is before

    with_broker(test, data)
    assert not [path for path in tmp_path.rglob("*-0") if data not in path.parents]


def test_controller_epoch_above_the_elected_one_is_rejected_as_stale(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        broker, highest = client.as_broker(), 2**31 - 1
        state = StopReplicaPartitionState(partition_index=0)
        requests: list[tuple[Any, int]] = [
            (UpdateMetadataRequest(controller_epoch=highest), 8),
            (LeaderAndIsrRequest(controller_epoch=highest), 7),
            (
                StopReplicaRequest(
                    controller_epoch=highest,
                    topic_states=[StopReplicaTopicState(topic_name="t", partition_states=[state])],
                ),
                4,
            ),
        ]
        for request, version in requests:
            assert codes(await broker.request(request, version)) == {StaleControllerEpochError.code}
        await create(client)
        assert client.context.image.topics["t"]

    with_broker(test, tmp_path)


def test_leader_and_isr_and_stop_replica_with_a_path_as_topic_are_rejected(tmp_path: Path) -> None:
    outside = tmp_path / "x-7"
    outside.mkdir()

    async def test(client: BrokerClient) -> None:
        broker, own = client.as_broker(), client.context.image.controller_epoch
        partition_state = LeaderAndIsrPartitionState(partition_index=7, leader=0, leader_epoch=0, isr=[0], replicas=[0])
        leader_and_isr = LeaderAndIsrRequest(
            controller_epoch=own,
            topic_states=[LeaderAndIsrTopicState(topic_name="../x", partition_states=[partition_state])],
        )
        state = StopReplicaPartitionState(partition_index=7, delete_partition=True)
        stop_replica = StopReplicaRequest(
            controller_epoch=own, topic_states=[StopReplicaTopicState(topic_name="../x", partition_states=[state])]
        )
        assert codes(await broker.request(leader_and_isr, 7)) == {InvalidTopicError.code}
        assert codes(await broker.request(stop_replica, 4)) == {InvalidTopicError.code}

    with_broker(test, tmp_path / "data")
    assert outside.is_dir()


@pytest.mark.parametrize(
    ("commit", "epoch", "producer_id", "code"),
    [
        (False, 0, None, 0),
        (True, 0, None, InvalidTxnStateError.code),
        (False, 1, None, InvalidTxnStateError.code),
        (False, 0, 2**63 - 1, InvalidTxnStateError.code),
    ],
)
def test_write_txn_markers_of_a_client_can_only_abort_an_open_transaction(
    tmp_path: Path, commit: bool, epoch: int, producer_id: int | None, code: int
) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        await producer.send(T0, b"a")
        marker = WritableTxnMarker(
            producer_id=producer.producer_id if producer_id is None else producer_id,
            producer_epoch=epoch,
            transaction_result=commit,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        )
        (response,) = (await client.request(WriteTxnMarkersRequest(markers=[marker]), 1)).markers
        assert [p.error_code for p in response.topics[0].partitions] == [code]
        partition = client.context.partitions.get(T0)
        assert partition is not None
        is_open = partition.log.producers.has_open_transaction(producer.producer_id, 0)
        assert is_open is (code != 0)
        assert set(partition.log.producers.producers) == {producer.producer_id}

    with_manual_clock(test, tmp_path)
