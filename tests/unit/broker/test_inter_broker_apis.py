"""What only brokers send is refused to clients, and what brokers send is checked before it becomes a path."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.unit.broker.allowing import CLUSTER_REFUSED, TOPIC_REFUSED, be, codes, only, with_items, with_rules
from tests.unit.broker.asking import SECRET, Asker, batch, with_broker
from tests.unit.broker.produce_and_fetch import create, fetch_request, produce
from tests.unit.broker.transacting import T0, at_clock, begin

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

BETWEEN_BROKERS = [row for row in SUPPORTED_APIS if row.inter_broker_since is not None]


def versions(row: ApiEntry) -> range:
    assert row.inter_broker_since is not None
    return range(row.inter_broker_since, row.versions(in_cluster=True).stop)


@pytest.mark.parametrize("row", BETWEEN_BROKERS, ids=lambda row: row.name)
def test_inter_broker_api_at_a_standalone_broker_is_not_served(row: ApiEntry, tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        client.connection.state[MEMBER] = True
        for version in versions(row):
            with pytest.raises(CloseConnectionError, match="not served"):
                await client.ask(row.api.request(), version)

    with_broker(test, tmp_path)


def test_api_versions_of_a_standalone_broker_lists_no_inter_broker_api(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        alone = {api.api_key: api.max_version for api in (await client.ask(request, 3)).api_keys}
        client.join_cluster()
        member = {api.api_key: api.max_version for api in (await client.ask(request, 3)).api_keys}
        for row in BETWEEN_BROKERS:
            assert alone.get(row.api.key, -1) == (row.inter_broker_since or 0) - 1, row.name
            assert member[row.api.key] == row.versions(in_cluster=True)[-1], row.name

    with_broker(test, tmp_path)


@pytest.mark.parametrize("row", BETWEEN_BROKERS, ids=lambda row: row.name)
def test_inter_broker_api_of_a_client_in_a_cluster_is_refused(row: ApiEntry, tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        client.join_cluster()
        for version in versions(row):
            answer = await client.ask(with_items(row.api.request, version), version)
            assert codes(answer) == {CLUSTER_REFUSED}

    with_broker(test, tmp_path)


def test_inter_broker_api_allowed_by_default_only_is_refused(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        only(client)
        request = UpdateMetadataRequest(controller_epoch=2**31 - 1)
        assert codes(await client.ask(request, 8)) == {CLUSTER_REFUSED}
        be(client, "admin")
        assert codes(await client.ask(request, 8)) == {StaleControllerEpochError.code}

    with_rules(test, tmp_path, allow_everyone_if_no_acl_found="true")


@pytest.mark.parametrize(("listener", "refused"), [("PLAINTEXT", False), ("CLIENTS", True)])
def test_broker_of_apache_kafka_is_accepted_on_the_inter_broker_listener_only(
    tmp_path: Path, listener: str, refused: bool
) -> None:
    async def test(client: Asker) -> None:
        client.join_cluster()
        client.connection.listener = SimpleNamespace(name=listener)
        own = client.context.image.controller_epoch
        request = UpdateMetadataRequest(controller_id=0, controller_epoch=own, type=2)
        assert codes(await client.ask(request, 8)) == ({CLUSTER_REFUSED} if refused else set())

    with_broker(test, tmp_path, apache_kafka_brokers_enable="true")


def test_fetch_of_a_client_that_pretends_to_be_a_follower_is_refused(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client)
        await produce(client, batch(b"a"))
        client.join_cluster()
        for replica_id in (0, 1):
            assert codes(await client.ask(fetch_request(replica_id=replica_id), 12)) == {TOPIC_REFUSED}
        epochs = OffsetForLeaderEpochRequest(
            replica_id=1, topics=[OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=0)])]
        )
        assert codes(await client.ask(epochs, 4)) == {TOPIC_REFUSED}
        assert not codes(await client.as_broker().ask(epochs, 4))

    with_broker(test, tmp_path)


def test_fetch_of_a_replica_verification_tool_is_that_of_a_consumer(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client)
        await produce(client, batch(b"a"))
        client.join_cluster()
        fetched = await client.ask(fetch_request(replica_id=-2), 12)
        assert not codes(fetched)
        assert fetched.responses[0].partitions[0].records
        partition = client.context.partitions.get(TopicPartition("t", 0))
        assert partition is not None
        partition.log.high_watermark = 0
        assert not (await client.ask(fetch_request(replica_id=-2), 12)).responses[0].partitions[0].records

    with_broker(test, tmp_path)


def test_list_offsets_of_a_client_that_pretends_to_be_a_follower_ends_at_the_high_watermark(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client)
        await produce(client, batch(b"a"))
        partition = client.context.partitions.get(TopicPartition("t", 0))
        assert partition is not None
        partition.log.high_watermark = 0
        latest = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(replica_id=1, topics=[ListOffsetsTopic(name="t", partitions=[latest])])
        assert (await client.ask(request, 7)).topics[0].partitions[0].offset == 0
        assert (await client.as_broker().ask(request, 7)).topics[0].partitions[0].offset == 1

    with_broker(test, tmp_path)


class Wire:
    """A channel that leads straight into a broker's dispatch."""

    host, port = "127.0.0.1", 9092

    def __init__(self, client: Asker) -> None:
        self._client = client

    def send(self, request: Any, version: int, timeout: float) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self._client.ask(request, version))


def test_broker_that_knows_the_secret_is_served(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        client.join_cluster()
        wire: Any = Wire(client)
        assert await prove(wire, SECRET, 1)
        assert PROOF not in client.connection.state
        own = client.context.image.controller_epoch
        request = UpdateMetadataRequest(controller_id=0, controller_epoch=own, type=2)
        assert not codes(await client.ask(request, 8))

    with_broker(test, tmp_path)


def test_proof_at_a_broker_that_has_just_started_is_answered_at_once(tmp_path: Path) -> None:
    # it comes from the controller, whose UpdateMetadata the broker waits for
    async def test(client: Asker) -> None:
        client.join_cluster()
        client.context.controller_requests._initialized.clear()
        wire: Any = Wire(client)
        async with asyncio.timeout(INITIALIZATION_SECONDS / 2):
            assert await prove(wire, SECRET, 1)
        client.context.controller_requests.mark_initialized()

    with_broker(test, tmp_path)


def test_broker_with_another_secret_is_refused_by_both_sides(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        client.join_cluster()
        wire: Any = Wire(client)
        with pytest.raises(SaslAuthenticationFailedError, match="127.0.0.1:9092 does not know the secret"):
            await prove(wire, b"x" * 32, 1)
        state = client.connection.state
        state.clear()
        assert (await client.ask(SaslHandshakeRequest(mechanism=MECHANISM), 1)).error_code == 0
        await client.ask(SaslAuthenticateRequest(auth_bytes=b"n" * CHALLENGE_BYTES), 2)
        guess = hmac.digest(b"x" * 32, b"", "sha256")
        answer = await client.ask(SaslAuthenticateRequest(auth_bytes=guess), 2)
        assert answer.error_code == SaslAuthenticationFailedError.code
        assert not state
        again = await client.ask(SaslAuthenticateRequest(auth_bytes=guess), 2)
        assert again.error_code == IllegalSaslStateError.code

    with_broker(test, tmp_path)


def test_proof_at_a_standalone_broker_is_not_asked_for(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        wire: Any = Wire(client)
        assert not await prove(wire, SECRET, 1)

    with_broker(test, tmp_path)


@pytest.mark.parametrize("message", [b"", b"short", b"x" * (CHALLENGE_BYTES + 1)])
def test_challenge_of_another_length_is_refused(message: bytes) -> None:
    with pytest.raises(SaslAuthenticationFailedError, match="has 32 bytes"):
        ProofVerifier(SECRET).step(message)


def metadata(client: Asker, name: str = "t", **more: Any) -> UpdateMetadataRequest:
    state = UpdateMetadataPartitionState(**{"leader": 0, "leader_epoch": 0, "isr": [0], "replicas": [0], **more})
    own = client.context.image
    return UpdateMetadataRequest(
        controller_id=own.controller_id,
        controller_epoch=own.controller_epoch,
        type=2,
        topic_states=[UpdateMetadataTopicState(topic_name=name, topic_id=UUID(int=7), partition_states=[state])],
        live_brokers=[UpdateMetadataBroker(id=0, endpoints=[UpdateMetadataEndpoint(port=9, host="h")])],
    )


Change = Callable[[Asker], UpdateMetadataRequest]
ODD: dict[str, tuple[Change, int | None]] = {
    "a path": (lambda c: metadata(c, "../../../x"), InvalidTopicError.code),
    "the parent": (lambda c: metadata(c, ".."), InvalidTopicError.code),
    "no name": (lambda c: metadata(c, ""), InvalidTopicError.code),
    "a long name": (lambda c: metadata(c, "x" * 250), InvalidTopicError.code),
    "a negative partition": (lambda c: metadata(c, partition_index=-5), InvalidPartitionsError.code),
    "a partition beyond all": (lambda c: metadata(c, partition_index=2**31 - 1), InvalidPartitionsError.code),
    "a negative epoch": (lambda c: metadata(c, leader_epoch=-9), InvalidRequestError.code),
    "a negative replica": (lambda c: metadata(c, replicas=[0, -7]), InvalidRequestError.code),
}


@pytest.mark.parametrize("name", ODD)
def test_update_metadata_that_is_out_of_range_changes_nothing(name: str, tmp_path: Path) -> None:
    make, code = ODD[name]
    data = tmp_path / "a" / "b" / "c" / "data"
    data.mkdir(parents=True)

    async def test(client: Asker) -> None:
        before = client.context.image
        assert codes(await client.as_broker().ask(make(client), 8)) == {code}
        assert client.context.image is before

    with_broker(test, data)
    assert not [path for path in tmp_path.rglob("*-0") if data not in path.parents]


def test_controller_epoch_that_no_controller_had_is_refused_and_topics_can_be_created(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
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
            assert codes(await broker.ask(request, version)) == {StaleControllerEpochError.code}
        await create(client)
        assert client.context.image.topics["t"]

    with_broker(test, tmp_path)


def test_leader_and_isr_and_stop_replica_of_a_path_are_refused(tmp_path: Path) -> None:
    outside = tmp_path / "x-7"
    outside.mkdir()

    async def test(client: Asker) -> None:
        broker, own = client.as_broker(), client.context.image.controller_epoch
        duty = LeaderAndIsrPartitionState(partition_index=7, leader=0, leader_epoch=0, isr=[0], replicas=[0])
        duties = LeaderAndIsrRequest(
            controller_epoch=own,
            topic_states=[LeaderAndIsrTopicState(topic_name="../x", partition_states=[duty])],
        )
        state = StopReplicaPartitionState(partition_index=7, delete_partition=True)
        end = StopReplicaRequest(
            controller_epoch=own, topic_states=[StopReplicaTopicState(topic_name="../x", partition_states=[state])]
        )
        assert codes(await broker.ask(duties, 7)) == {InvalidTopicError.code}
        assert codes(await broker.ask(end, 4)) == {InvalidTopicError.code}

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
def test_marker_of_a_client_aborts_an_open_transaction_and_nothing_else(
    tmp_path: Path, commit: bool, epoch: int, producer_id: int | None, code: int
) -> None:
    async def test(client: Asker, clock: ManualClock) -> None:
        producer = await begin(client)
        await producer.send(T0, b"a")
        marker = WritableTxnMarker(
            producer_id=producer.producer_id if producer_id is None else producer_id,
            producer_epoch=epoch,
            transaction_result=commit,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        )
        (answer,) = (await client.ask(WriteTxnMarkersRequest(markers=[marker]), 1)).markers
        assert [p.error_code for p in answer.topics[0].partitions] == [code]
        partition = client.context.partitions.get(T0)
        assert partition is not None
        is_open = partition.log.producers.has_open_transaction(producer.producer_id, 0)
        assert is_open is (code != 0)
        assert set(partition.log.producers.producers) == {producer.producer_id}

    at_clock(test, tmp_path)
