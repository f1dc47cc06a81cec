"""ACLs that clients add, describe and delete, and that apply from the next request on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.asking import Asker, with_broker

from ottla.broker.security import acl_requests
from ottla.cluster.broker.acl_store import AclStore
from ottla.cluster.store.metadata_store import MetadataStoreTimeoutError
from ottla.cluster.store.sqlite_store import SqliteMetadataStore
from ottla.model import ACLOperation
from ottla.net.server.connection import USER
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.security.acl import ACL, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

CLUSTER_REFUSED, INVALID, POLICY = 31, 42, 44
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED, ANY, MATCH = (
    ACLResourcePatternType.LITERAL,
    ACLResourcePatternType.PREFIXED,
    ACLResourcePatternType.ANY,
    ACLResourcePatternType.MATCH,
)
WITH_RULES: dict[str, Any] = {"authorizer_class_name": "AclAuthorizer", "super_users": "User:ANONYMOUS"}


def creation(**others: Any) -> AclCreation:
    reported: dict[str, Any] = {
        "resource_type": TOPIC,
        "resource_name": "t",
        "resource_pattern_type": LITERAL,
        "principal": "User:alice",
    }
    reported |= {"host": "*", "operation": ACLOperation.READ, "permission_type": ACLPermissionType.ALLOW}
    fields: dict[str, Any] = {name: int(v) if isinstance(v, int) else v for name, v in (reported | others).items()}
    return AclCreation(**fields)


def expected(**others: Any) -> dict[str, Any]:
    reported = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": ANY}
    reported |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    return {name: int(v) if isinstance(v, int) else v for name, v in (reported | others).items()}


async def create(client: Asker, *creations: AclCreation, version: int = 3) -> list[int]:
    answer = await client.ask(CreateAclsRequest(creations=list(creations)), version)
    assert all((result.error_code == 0) == (not result.error_message) for result in answer.results)
    return [result.error_code for result in answer.results]


async def rules(client: Asker, version: int = 3, **others: Any) -> list[tuple[int, str, int, str, int]]:
    answer = await client.ask(DescribeAclsRequest(**expected(**others)), version)
    assert answer.error_code == 0
    actual = [
        (r.resource_type, r.resource_name, r.pattern_type, acl.principal, acl.operation)
        for r in answer.resources
        for acl in r.acls
    ]
    assert len(answer.resources) == len({resource[:3] for resource in actual})
    return actual


def test_acls_are_added_described_and_removed(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        prefixed = creation(resource_type=GROUP, resource_name="g-", resource_pattern_type=PREFIXED)
        assert await create(client, creation(), creation(operation=ACLOperation.ALL), prefixed, creation()) == [0] * 4
        read, everything = (TOPIC, "t", LITERAL, "User:alice", 3), (TOPIC, "t", LITERAL, "User:alice", 2)
        group = (GROUP, "g-", PREFIXED, "User:alice", 3)
        assert await rules(client) == [everything, read, group]
        assert await rules(client, resource_type_filter=TOPIC, operation=3) == [read]
        matching: dict[str, Any] = {"resource_name_filter": "g-1", "pattern_type_filter": MATCH}
        assert await rules(client, resource_type_filter=GROUP, **matching) == [group]
        filters = [DeleteAclsFilter(**expected(operation=3)), DeleteAclsFilter(**expected(principal_filter="User:bob"))]
        removed = await client.ask(DeleteAclsRequest(filters=filters), 3)
        met = [
            [(m.resource_name, m.pattern_type, m.operation) for m in r.matching_acls] for r in removed.filter_results
        ]
        assert met == [[("t", LITERAL, 3), ("g-", PREFIXED, 3)], []]
        assert await rules(client) == [everything]

    with_broker(test, tmp_path, **WITH_RULES)


def test_rules_hold_at_once_and_after_a_restart(tmp_path: Path) -> None:
    async def as_alice(client: Asker, operation: ACLOperation, *, error: int) -> None:
        request, version = DescribeAclsRequest(**expected()), 3
        client.connection.state[USER] = "alice"
        try:
            assert (await client.ask(request, version)).error_code == error
        finally:
            client.connection.state.clear()

    async def test(client: Asker) -> None:
        on_cluster = {"resource_type": CLUSTER, "resource_name": "kafka-cluster"}
        await as_alice(client, ACLOperation.DESCRIBE, error=CLUSTER_REFUSED)
        assert await create(client, creation(**on_cluster, operation=ACLOperation.DESCRIBE)) == [0]
        await as_alice(client, ACLOperation.DESCRIBE, error=0)
        deny = creation(
            **on_cluster, operation=ACLOperation.ALL, principal="User:*", permission_type=ACLPermissionType.DENY
        )
        assert await create(client, deny) == [0]
        await as_alice(client, ACLOperation.DESCRIBE, error=CLUSTER_REFUSED)
        await client.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**expected(permission_type=2))]), 3)
        await as_alice(client, ACLOperation.DESCRIBE, error=0)

    async def again(client: Asker) -> None:
        await as_alice(client, ACLOperation.DESCRIBE, error=0)

    with_broker(test, tmp_path, **WITH_RULES)
    with_broker(again, tmp_path, **WITH_RULES)


def test_acls_just_added_on_another_broker_are_listed(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        assert client.context.acl_store is not None
        assert client.node._store is not None
        await client.context.acl_store.close()  # without notifications: only requests trigger reads
        other = AclStore(client.node._store, lambda _: None)
        topic = ResourcePattern(TOPIC, "t")
        await other.add([ACL("User:alice", "*", ACLOperation.READ, ACLPermissionType.ALLOW, topic)])
        assert await rules(client) == [(TOPIC, "t", LITERAL, "User:alice", 3)]

    with_broker(test, tmp_path, **WITH_RULES)


def test_who_may_not_alter_the_cluster_changes_no_rules(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        on_cluster = {"resource_type": CLUSTER, "resource_name": "kafka-cluster"}
        assert await create(client, creation(**on_cluster, operation=ACLOperation.DESCRIBE)) == [0]
        client.connection.state[USER] = "alice"
        assert await create(client, creation(), creation(principal="")) == [CLUSTER_REFUSED] * 2
        removed = await client.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**expected())]), 3)
        assert [(r.error_code, r.matching_acls) for r in removed.filter_results] == [(CLUSTER_REFUSED, [])]
        assert len(await rules(client)) == 1

    with_broker(test, tmp_path, **WITH_RULES)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"resource_type": kind} for kind in (0, 1, 99, -1)),
        *({"resource_pattern_type": how} for how in (0, 1, 2, 9)),
        *({"operation": operation} for operation in (0, 1, 99)),
        *({"permission_type": permission} for permission in (0, 1, 7)),
        *({"resource_name": name} for name in ("", "a/b", ".", "a\n")),
        *({"principal": principal} for principal in ("", "alice", ":alice", "User:")),
        {"host": ""},
        {"resource_type": CLUSTER, "resource_name": "t"},
        {"resource_type": CLUSTER, "resource_name": "*"},
    ],
    ids=lambda wrong: str(wrong)[:40],
)
def test_invalid_acl_is_rejected_separately(wrong: dict[str, Any], tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        assert await create(client, creation(**wrong), creation()) == [INVALID, 0]
        assert len(await rules(client)) == 1

    with_broker(test, tmp_path, **WITH_RULES)


@pytest.mark.parametrize("unknown", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"])
def test_a_filter_that_is_not_understood_meets_nothing(unknown: str, tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        assert await create(client, creation()) == [0]
        for value in (0, 99):
            answer = await client.ask(DescribeAclsRequest(**expected(**{unknown: value})), 3)
            assert (answer.error_code, answer.resources) == (INVALID, [])
            filters = [DeleteAclsFilter(**expected(**{unknown: value})), DeleteAclsFilter(**expected(host_filter="h"))]
            removed = await client.ask(DeleteAclsRequest(filters=filters), 3)
            assert [(r.error_code, r.matching_acls) for r in removed.filter_results] == [(INVALID, []), (0, [])]
        assert len(await rules(client)) == 1

    with_broker(test, tmp_path, **WITH_RULES)


def test_version_0_knows_no_prefixes(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        assert await create(client, creation(), version=0) == [0]
        assert await create(client, creation(resource_pattern_type=PREFIXED), version=1) == [0]
        literal = {"pattern_type_filter": LITERAL}
        assert await rules(client, version=0, **literal) == [(TOPIC, "t", LITERAL, "User:alice", 3)]
        removed = await client.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**expected(**literal))]), 0)
        assert [len(result.matching_acls) for result in removed.filter_results] == [1]
        assert await rules(client, version=1) == [(TOPIC, "t", PREFIXED, "User:alice", 3)]

    with_broker(test, tmp_path, **WITH_RULES)


def test_one_request_has_so_many_rules_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_requests, "MAX_AT_ONCE", 2)

    async def test(client: Asker) -> None:
        assert await create(client, *[creation()] * 3) == [POLICY] * 3
        assert await rules(client) == []
        removed = await client.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**expected())] * 3), 3)
        assert [result.error_code for result in removed.filter_results] == [POLICY] * 3
        assert await create(client, *[creation()] * 2) == [0] * 2

    with_broker(test, tmp_path, **WITH_RULES)


def test_acl_that_the_metadata_store_rejects_gets_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise MetadataStoreTimeoutError("ZooKeeper does not answer")

    async def test(client: Asker) -> None:
        assert await create(client, creation()) == [0]
        monkeypatch.setattr(SqliteMetadataStore, "get", broken)
        monkeypatch.setattr(SqliteMetadataStore, "children", broken)
        assert await create(client, creation(resource_name="other"), creation(host="")) == [-1, INVALID]
        removed = await client.ask(
            DeleteAclsRequest(filters=[DeleteAclsFilter(**expected()), DeleteAclsFilter(**expected(operation=0))]), 3
        )
        assert [result.error_code for result in removed.filter_results] == [-1, INVALID]
        assert len(await rules(client)) == 1  # the ACLs that were loaded before have to suffice

    with_broker(test, tmp_path, **WITH_RULES)
