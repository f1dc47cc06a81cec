"""Administrative requests to a standalone broker: ACLs, tokens, SCRAM credentials, elections and reassignments."""

import asyncio
import hashlib
import hmac
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, with_broker

from ottla.errors import InvalidReplicaAssignmentError
from ottla.model import TopicPartition
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from ottla.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.update_features import UpdateFeaturesRequest

SECURITY_DISABLED, ILLEGAL_SASL_STATE, TOKEN_NOT_ALLOWED = 54, 34, 64
(
    UNKNOWN_TOPIC,
    ELECTION_NOT_NEEDED,
    INVALID_REPLICATION_FACTOR,
    INVALID_REPLICA_ASSIGNMENT,
    NO_REASSIGNMENT_IN_PROGRESS,
) = 3, 84, 38, 39, 85
INVALID_TOPIC = 17
SHA_256, SHA_512 = 1, 2


async def create(client: BrokerClient) -> None:
    topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    await client.request(CreateTopicsRequest(topics=[topic]), 7)


def test_acl_requests_without_an_authorizer_return_security_disabled(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        for version in (0, 3):
            described = await client.request(DescribeAclsRequest(resource_type_filter=1), version)
            assert (described.error_code, described.error_message) == (
                SECURITY_DISABLED,
                "No Authorizer is configured. Set authorizer.class.name in the brokers' configs.",
            )
            acl = AclCreation(resource_type=2, resource_name="t", principal="User:a", host="*", operation=3)
            created = await client.request(CreateAclsRequest(creations=[acl, acl]), version)
            assert [r.error_code for r in created.results] == [SECURITY_DISABLED] * 2
            deleted = await client.request(
                DeleteAclsRequest(filters=[DeleteAclsFilter(resource_type_filter=1)]), version
            )
            assert [r.error_code for r in deleted.filter_results] == [SECURITY_DISABLED]

    with_broker(test, tmp_path)


def test_sasl_and_token_requests_on_a_plaintext_listener_are_rejected(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        for request, version, error in (
            (SaslHandshakeRequest(mechanism="PLAIN"), 1, ILLEGAL_SASL_STATE),
            (SaslAuthenticateRequest(auth_bytes=b"x"), 2, ILLEGAL_SASL_STATE),
            (CreateDelegationTokenRequest(), 3, TOKEN_NOT_ALLOWED),
            (CreateDelegationTokenRequest(), 0, TOKEN_NOT_ALLOWED),
            (RenewDelegationTokenRequest(hmac=b"x"), 2, TOKEN_NOT_ALLOWED),
            (ExpireDelegationTokenRequest(hmac=b"x"), 2, TOKEN_NOT_ALLOWED),
            (DescribeDelegationTokenRequest(owners=None), 3, TOKEN_NOT_ALLOWED),
        ):
            response: Any = await client.request(request, version)
            assert response.error_code == error, request

    with_broker(test, tmp_path)


def test_elect_leaders_on_a_standalone_broker_returns_election_not_needed(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        requested = [TopicPartitions(topic="t", partitions=[0, 1, 2]), TopicPartitions(topic="no", partitions=[0])]
        for kind in (0, 1):
            response = await client.request(ElectLeadersRequest(election_type=kind, topic_partitions=requested), 2)
            actual = [[p.error_code for p in r.partition_result] for r in response.replica_election_results]
            assert actual == [[ELECTION_NOT_NEEDED, ELECTION_NOT_NEEDED, UNKNOWN_TOPIC], [UNKNOWN_TOPIC]]
        everything = await client.request(ElectLeadersRequest(topic_partitions=None), 1)
        assert (everything.error_code, everything.replica_election_results) == (0, [])
        assert (await client.request(ElectLeadersRequest(election_type=5, topic_partitions=[]), 2)).error_code == 42

    with_broker(test, tmp_path)


def test_reassignment_to_the_current_replicas_succeeds_and_others_are_rejected(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        replicas_by_partition = {0: [0], 1: [1], 2: [0]}
        partitions = [ReassignablePartition(partition_index=p, replicas=r) for p, r in replicas_by_partition.items()]
        partitions.append(ReassignablePartition(partition_index=0, replicas=None))
        partitions.append(ReassignablePartition(partition_index=0, replicas=[]))
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=partitions)])
        response = await client.request(request, 0)
        codes = [p.error_code for p in response.responses[0].partitions]
        assert codes == [
            0,
            INVALID_REPLICA_ASSIGNMENT,
            UNKNOWN_TOPIC,
            NO_REASSIGNMENT_IN_PROGRESS,
            INVALID_REPLICA_ASSIGNMENT,
        ]
        assert (await client.request(ListPartitionReassignmentsRequest(topics=None), 0)).topics == []

    with_broker(test, tmp_path)


def test_reassignment_that_changes_the_replication_factor_can_be_forbidden(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        for allowed, target, error in (
            (False, [0, 1], INVALID_REPLICATION_FACTOR),
            (True, [0, 1], INVALID_REPLICA_ASSIGNMENT),
            (False, [0], 0),
        ):
            partitions = [ReassignablePartition(partition_index=0, replicas=target)]
            request = AlterPartitionReassignmentsRequest(
                allow_replication_factor_change=allowed, topics=[ReassignableTopic(name="t", partitions=partitions)]
            )
            (topic,) = (await client.request(request, 1)).responses
            assert topic.partitions[0].error_code == error

    with_broker(test, tmp_path)


def test_reassignments_of_one_request_run_concurrently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: BrokerClient) -> None:
        barrier = asyncio.Barrier(3)

        async def reassign(tp: TopicPartition, target: list[int]) -> None:
            await barrier.wait()
            if tp.partition == 1:
                raise InvalidReplicaAssignmentError

        monkeypatch.setattr(client.context.controller.reassignments, "reassign", reassign)
        topics = [
            ReassignableTopic(
                name=name, partitions=[ReassignablePartition(partition_index=i, replicas=[1]) for i in indexes]
            )
            for name, indexes in (("t", [0, 1]), ("u", [0]))
        ]
        response = await client.request(AlterPartitionReassignmentsRequest(topics=topics), 0)
        actual = [(t.name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in response.responses]
        assert actual == [("t", [(0, 0), (1, INVALID_REPLICA_ASSIGNMENT)]), ("u", [(0, 0)])]

    with_broker(test, tmp_path)


def test_topics_of_one_request_are_changed_concurrently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: BrokerClient) -> None:
        topics, barrier = client.context.controller.topics, asyncio.Barrier(2)

        def synchronize(method: str) -> None:
            """Make each call of the method wait for the other one, as for a broker that does not respond."""
            original = getattr(topics, method)

            async def waiting(*arguments: Any, **keywords: Any) -> Any:
                actual = await original(*arguments, **keywords)
                await barrier.wait()
                return actual

            monkeypatch.setattr(topics, method, waiting)

        for method in ("create", "add_partitions", "delete"):
            synchronize(method)
        new_topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("t", "u", "?")]
        created_topics = await client.request(CreateTopicsRequest(topics=new_topics), 7)
        assert [(t.name, t.error_code) for t in created_topics.topics] == [("t", 0), ("u", 0), ("?", INVALID_TOPIC)]
        more = [CreatePartitionsTopic(name=name, count=2, assignments=None) for name in ("t", "none", "u")]
        expanded = await client.request(CreatePartitionsRequest(topics=more), 3)
        assert [(t.name, t.error_code) for t in expanded.results] == [("t", 0), ("none", UNKNOWN_TOPIC), ("u", 0)]
        removed = await client.request(DeleteTopicsRequest(topic_names=["u", "none", "t"]), 5)
        assert [(t.name, t.error_code) for t in removed.responses] == [("u", 0), ("none", UNKNOWN_TOPIC), ("t", 0)]

    with_broker(test, tmp_path)


def upsertion(name: str = "alice", mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"salted"
    )


async def alter(client: BrokerClient, *changes: Any) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(
        deletions=[c for c in changes if isinstance(c, ScramCredentialDeletion)],
        upsertions=[c for c in changes if isinstance(c, ScramCredentialUpsertion)],
    )
    return {r.user: r.error_code for r in (await client.request(request, 0)).results}


async def described(client: BrokerClient, *users: str) -> dict[str, Any]:
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=u) for u in users] if users else None)
    response = await client.request(request, 0)
    return {r.user: r.error_code or [(c.mechanism, c.iterations) for c in r.credential_infos] for r in response.results}


def test_scram_credentials_are_set_described_and_deleted(tmp_path: Path) -> None:
    async def first(client: BrokerClient) -> None:
        assert await alter(client, upsertion(), upsertion(mechanism=SHA_512, iterations=8192)) == {"alice": 0}

    async def second(client: BrokerClient) -> None:
        assert await described(client) == {"alice": [(SHA_256, 4096), (SHA_512, 8192)]}
        stored = client.context.image.configs["users/alice"]["SCRAM-SHA-256"]
        parts = dict(part.split("=", 1) for part in stored.split(","))
        client_key = hmac.digest(b"salted", b"Client Key", "sha256")
        assert b64decode(parts["stored_key"]) == hashlib.sha256(client_key).digest()
        assert b64decode(parts["server_key"]) == hmac.digest(b"salted", b"Server Key", "sha256")
        assert (b64decode(parts["salt"]), parts["iterations"]) == (b"salt", "4096")
        assert await alter(client, ScramCredentialDeletion(name="alice", mechanism=SHA_256)) == {"alice": 0}
        assert await described(client, "alice", "bob") == {"alice": [(SHA_512, 8192)], "bob": 91}

    with_broker(first, tmp_path)
    with_broker(second, tmp_path)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([upsertion(name="")], 93),
        ([upsertion(iterations=4095)], 93),
        ([upsertion(iterations=16385)], 93),
        ([upsertion(mechanism=3)], 33),
        ([upsertion(), upsertion()], 92),
        ([upsertion(), ScramCredentialDeletion(name="alice", mechanism=SHA_256)], 92),
        ([upsertion(), ScramCredentialDeletion(name="alice", mechanism=SHA_512)], 91),
    ],
)
def test_invalid_scram_credential_changes_leave_credentials_unchanged(
    tmp_path: Path, changes: list[ScramCredentialDeletion | ScramCredentialUpsertion], error: int
) -> None:
    async def test(client: BrokerClient) -> None:
        assert list((await alter(client, *changes)).values()) == [error]
        assert await described(client) == {}

    with_broker(test, tmp_path)


CONTROLLER_REQUESTS: list[tuple[Any, int]] = [
    (CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)]), 7),
    (CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=3)]), 3),
    (DeleteTopicsRequest(topic_names=["t"]), 5),
    (ElectLeadersRequest(topic_partitions=None), 2),
    (ListPartitionReassignmentsRequest(), 0),
    (UpdateFeaturesRequest(validate_only=True), 2),
]
NOT_CONTROLLER = 41


def _codes(value: Any) -> set[int]:
    """Every error code of a response, the nested ones included."""
    if isinstance(value, list):
        return set().union(*map(_codes, value)) if value else set()
    fields = getattr(value, "FIELDS", ())
    return {getattr(value, f.name) for f in fields if f.name == "error_code"}.union(
        *(_codes(getattr(value, f.name)) for f in fields)
    )


@pytest.mark.parametrize(("request_", "version"), CONTROLLER_REQUESTS, ids=lambda v: getattr(v, "NAME", None))
def test_controller_request_during_an_election_waits_for_its_end(request_: Any, version: int, tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        controller = client.context.controller
        term = controller.term
        await controller.end_term()  # as after /controller was deleted, until a controller is elected
        requested = asyncio.create_task(client.request(request_, version))
        done, _ = await asyncio.wait([requested], timeout=0.05)
        assert not done
        await controller.start_term(term)
        assert NOT_CONTROLLER not in _codes(await requested)

    with_broker(test, tmp_path)


def test_controller_request_without_a_controller_returns_not_controller_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.broker.dispatch.ELECTION_SECONDS", 0.01)

    async def test(client: BrokerClient) -> None:
        await client.context.controller.end_term()
        for request, version in CONTROLLER_REQUESTS:
            assert _codes(await client.request(request, version)) >= {NOT_CONTROLLER}

    with_broker(test, tmp_path)
