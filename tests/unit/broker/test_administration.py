"""What one node answers to requests about ACLs, tokens, credentials, elections and moves: what Kafka would."""

import asyncio
import hashlib
import hmac
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.asking import Asker, with_broker

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

SECURITY_DISABLED, ILLEGAL_SASL_STATE, TOKEN_NOT_ALLOWED = 54, 34, 64
UNKNOWN_TOPIC, ELECTION_NOT_NEEDED, INVALID_FACTOR, INVALID_REPLICAS, NO_MOVE = 3, 84, 38, 39, 85
INVALID_TOPIC = 17
SHA_256, SHA_512 = 1, 2


async def create(client: Asker) -> None:
    topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    await client.ask(CreateTopicsRequest(topics=[topic]), 7)


def test_without_an_authorizer_acls_are_refused(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        for version in (0, 3):
            described = await client.ask(DescribeAclsRequest(resource_type_filter=1), version)
            assert (described.error_code, described.error_message) == (
                SECURITY_DISABLED,
                "No Authorizer is configured.",
            )
            rule = AclCreation(resource_type=2, resource_name="t", principal="User:a", host="*", operation=3)
            created = await client.ask(CreateAclsRequest(creations=[rule, rule]), version)
            assert [r.error_code for r in created.results] == [SECURITY_DISABLED] * 2
            deleted = await client.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(resource_type_filter=1)]), version)
            assert [r.error_code for r in deleted.filter_results] == [SECURITY_DISABLED]

    with_broker(test, tmp_path)


def test_on_a_listener_without_authentication_there_is_neither_sasl_nor_a_token(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        for request, version, error in (
            (SaslHandshakeRequest(mechanism="PLAIN"), 1, ILLEGAL_SASL_STATE),
            (SaslAuthenticateRequest(auth_bytes=b"x"), 2, ILLEGAL_SASL_STATE),
            (CreateDelegationTokenRequest(), 3, TOKEN_NOT_ALLOWED),
            (CreateDelegationTokenRequest(), 0, TOKEN_NOT_ALLOWED),
            (RenewDelegationTokenRequest(hmac=b"x"), 2, TOKEN_NOT_ALLOWED),
            (ExpireDelegationTokenRequest(hmac=b"x"), 2, TOKEN_NOT_ALLOWED),
            (DescribeDelegationTokenRequest(owners=None), 3, TOKEN_NOT_ALLOWED),
        ):
            answer: Any = await client.ask(request, version)
            assert answer.error_code == error, request

    with_broker(test, tmp_path)


def test_one_node_has_nothing_to_elect(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client)
        requested = [TopicPartitions(topic="t", partitions=[0, 1, 2]), TopicPartitions(topic="no", partitions=[0])]
        for kind in (0, 1):
            answer = await client.ask(ElectLeadersRequest(election_type=kind, topic_partitions=requested), 2)
            actual = [[p.error_code for p in r.partition_result] for r in answer.replica_election_results]
            assert actual == [[ELECTION_NOT_NEEDED, ELECTION_NOT_NEEDED, UNKNOWN_TOPIC], [UNKNOWN_TOPIC]]
        everything = await client.ask(ElectLeadersRequest(topic_partitions=None), 1)
        assert (everything.error_code, everything.replica_election_results) == (0, [])
        assert (await client.ask(ElectLeadersRequest(election_type=5, topic_partitions=[]), 2)).error_code == 42

    with_broker(test, tmp_path)


def test_partitions_can_be_moved_to_where_they_are(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client)
        replicas_by_partition = {0: [0], 1: [1], 2: [0]}
        partitions = [ReassignablePartition(partition_index=p, replicas=r) for p, r in replicas_by_partition.items()]
        partitions.append(ReassignablePartition(partition_index=0, replicas=None))
        partitions.append(ReassignablePartition(partition_index=0, replicas=[]))
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=partitions)])
        answer = await client.ask(request, 0)
        codes = [p.error_code for p in answer.responses[0].partitions]
        assert codes == [0, INVALID_REPLICAS, UNKNOWN_TOPIC, NO_MOVE, INVALID_REPLICAS]
        assert (await client.ask(ListPartitionReassignmentsRequest(topics=None), 0)).topics == []

    with_broker(test, tmp_path)


def test_a_move_that_changes_the_number_of_replicas_may_be_forbidden(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client)
        for allowed, target, error in (
            (False, [0, 1], INVALID_FACTOR),
            (True, [0, 1], INVALID_REPLICAS),
            (False, [0], 0),
        ):
            partitions = [ReassignablePartition(partition_index=0, replicas=target)]
            request = AlterPartitionReassignmentsRequest(
                allow_replication_factor_change=allowed, topics=[ReassignableTopic(name="t", partitions=partitions)]
            )
            (topic,) = (await client.ask(request, 1)).responses
            assert topic.partitions[0].error_code == error

    with_broker(test, tmp_path)


def test_moves_of_one_request_do_not_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Asker) -> None:
        begun = asyncio.Barrier(3)

        async def reassign(tp: TopicPartition, target: list[int]) -> None:
            await begun.wait()
            if tp.partition == 1:
                raise InvalidReplicaAssignmentError

        monkeypatch.setattr(client.context.controller.reassignments, "reassign", reassign)
        topics = [
            ReassignableTopic(
                name=name, partitions=[ReassignablePartition(partition_index=i, replicas=[1]) for i in indexes]
            )
            for name, indexes in (("t", [0, 1]), ("u", [0]))
        ]
        answer = await client.ask(AlterPartitionReassignmentsRequest(topics=topics), 0)
        actual = [(t.name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in answer.responses]
        assert actual == [("t", [(0, 0), (1, INVALID_REPLICAS)]), ("u", [(0, 0)])]

    with_broker(test, tmp_path)


def test_topics_of_one_request_do_not_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Asker) -> None:
        topics, begun = client.context.controller.topics, asyncio.Barrier(2)

        def together(method: str) -> None:
            """Each call of the method waits for the other, as for a broker that does not answer."""
            original = getattr(topics, method)

            async def waiting(*arguments: Any, **keywords: Any) -> Any:
                actual = await original(*arguments, **keywords)
                await begun.wait()
                return actual

            monkeypatch.setattr(topics, method, waiting)

        for method in ("create", "add_partitions", "delete"):
            together(method)
        expected = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("t", "u", "?")]
        made = await client.ask(CreateTopicsRequest(topics=expected), 7)
        assert [(t.name, t.error_code) for t in made.topics] == [("t", 0), ("u", 0), ("?", INVALID_TOPIC)]
        more = [CreatePartitionsTopic(name=name, count=2, assignments=None) for name in ("t", "none", "u")]
        grown = await client.ask(CreatePartitionsRequest(topics=more), 3)
        assert [(t.name, t.error_code) for t in grown.results] == [("t", 0), ("none", UNKNOWN_TOPIC), ("u", 0)]
        removed = await client.ask(DeleteTopicsRequest(topic_names=["u", "none", "t"]), 5)
        assert [(t.name, t.error_code) for t in removed.responses] == [("u", 0), ("none", UNKNOWN_TOPIC), ("t", 0)]

    with_broker(test, tmp_path)


def upsertion(name: str = "alice", mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"salted"
    )


async def alter(client: Asker, *changes: Any) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(
        deletions=[c for c in changes if isinstance(c, ScramCredentialDeletion)],
        upsertions=[c for c in changes if isinstance(c, ScramCredentialUpsertion)],
    )
    return {r.user: r.error_code for r in (await client.ask(request, 0)).results}


async def described(client: Asker, *users: str) -> dict[str, Any]:
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=u) for u in users] if users else None)
    answer = await client.ask(request, 0)
    return {r.user: r.error_code or [(c.mechanism, c.iterations) for c in r.credential_infos] for r in answer.results}


def test_credentials_are_set_described_and_removed(tmp_path: Path) -> None:
    async def first(client: Asker) -> None:
        assert await alter(client, upsertion(), upsertion(mechanism=SHA_512, iterations=8192)) == {"alice": 0}

    async def second(client: Asker) -> None:
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
def test_credentials_that_cannot_be_changed_so_are_left_as_they_are(
    tmp_path: Path, changes: list[ScramCredentialDeletion | ScramCredentialUpsertion], error: int
) -> None:
    async def test(client: Asker) -> None:
        assert list((await alter(client, *changes)).values()) == [error]
        assert await described(client) == {}

    with_broker(test, tmp_path)


BY_CONTROLLER: list[tuple[Any, int]] = [
    (CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)]), 7),
    (CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=3)]), 3),
    (DeleteTopicsRequest(topic_names=["t"]), 5),
    (ElectLeadersRequest(topic_partitions=None), 2),
    (ListPartitionReassignmentsRequest(), 0),
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


@pytest.mark.parametrize(("request_", "version"), BY_CONTROLLER, ids=lambda v: getattr(v, "NAME", None))
def test_request_for_controller_during_election_waits_for_its_end(request_: Any, version: int, tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client)
        controller = client.context.controller
        term = controller.term
        await (
            controller.end_term()
        )  # as when /controller was deleted: this broker stands again, or another one is elected
        requested = asyncio.create_task(client.ask(request_, version))
        done, _ = await asyncio.wait([requested], timeout=0.05)
        assert not done
        await controller.start_term(term)
        assert NOT_CONTROLLER not in _codes(await requested)

    with_broker(test, tmp_path)


def test_request_for_controller_without_an_elected_one_is_answered_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.broker.dispatch.ELECTION_SECONDS", 0.01)

    async def test(client: Asker) -> None:
        await client.context.controller.end_term()
        for request, version in BY_CONTROLLER:
            assert _codes(await client.ask(request, version)) >= {NOT_CONTROLLER}

    with_broker(test, tmp_path)
