"""CreateAcls, DescribeAcls and DeleteAcls, whose changes apply from the next request on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, with_broker

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

CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST, POLICY_VIOLATION = 31, 42, 44
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED, ANY, MATCH = (
    ACLResourcePatternType.LITERAL,
    ACLResourcePatternType.PREFIXED,
    ACLResourcePatternType.ANY,
    ACLResourcePatternType.MATCH,
)
WITH_AUTHORIZER: dict[str, Any] = {"authorizer_class_name": "AclAuthorizer", "super_users": "User:ANONYMOUS"}


def creation(**others: Any) -> AclCreation:
    defaults: dict[str, Any] = {
        "resource_type": TOPIC,
        "resource_name": "t",
        "resource_pattern_type": LITERAL,
        "principal": "User:alice",
    }
    defaults |= {"host": "*", "operation": ACLOperation.READ, "permission_type": ACLPermissionType.ALLOW}
    fields: dict[str, Any] = {name: int(v) if isinstance(v, int) else v for name, v in (defaults | others).items()}
    return AclCreation(**fields)


def acl_filter(**others: Any) -> dict[str, Any]:
    defaults = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": ANY}
    defaults |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    return {name: int(v) if isinstance(v, int) else v for name, v in (defaults | others).items()}


async def create(client: BrokerClient, *creations: AclCreation, version: int = 3) -> list[int]:
    response = await client.request(CreateAclsRequest(creations=list(creations)), version)
    assert all((result.error_code == 0) == (not result.error_message) for result in response.results)
    return [result.error_code for result in response.results]


async def describe_acls(client: BrokerClient, version: int = 3, **others: Any) -> list[tuple[int, str, int, str, int]]:
    response = await client.request(DescribeAclsRequest(**acl_filter(**others)), version)
    assert response.error_code == 0
    actual = [
        (r.resource_type, r.resource_name, r.pattern_type, acl.principal, acl.operation)
        for r in response.resources
        for acl in r.acls
    ]
    assert len(response.resources) == len({resource[:3] for resource in actual})
    return actual


def test_acls_are_created_described_and_deleted(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        prefixed = creation(resource_type=GROUP, resource_name="g-", resource_pattern_type=PREFIXED)
        assert await create(client, creation(), creation(operation=ACLOperation.ALL), prefixed, creation()) == [0] * 4
        read, everything = (TOPIC, "t", LITERAL, "User:alice", 3), (TOPIC, "t", LITERAL, "User:alice", 2)
        group = (GROUP, "g-", PREFIXED, "User:alice", 3)
        assert await describe_acls(client) == [everything, read, group]
        assert await describe_acls(client, resource_type_filter=TOPIC, operation=3) == [read]
        matching: dict[str, Any] = {"resource_name_filter": "g-1", "pattern_type_filter": MATCH}
        assert await describe_acls(client, resource_type_filter=GROUP, **matching) == [group]
        filters = [
            DeleteAclsFilter(**acl_filter(operation=3)),
            DeleteAclsFilter(**acl_filter(principal_filter="User:bob")),
        ]
        removed = await client.request(DeleteAclsRequest(filters=filters), 3)
        deleted = [
            [(m.resource_name, m.pattern_type, m.operation) for m in r.matching_acls] for r in removed.filter_results
        ]
        assert deleted == [[("t", LITERAL, 3), ("g-", PREFIXED, 3)], []]
        assert await describe_acls(client) == [everything]

    with_broker(test, tmp_path, **WITH_AUTHORIZER)


def test_acls_apply_at_once_and_after_a_restart(tmp_path: Path) -> None:
    async def describe_as_alice(client: BrokerClient, operation: ACLOperation, *, error: int) -> None:
        request, version = DescribeAclsRequest(**acl_filter()), 3
        client.connection.state[USER] = "alice"
        try:
            assert (await client.request(request, version)).error_code == error
        finally:
            client.connection.state.clear()

    async def test(client: BrokerClient) -> None:
        on_cluster = {"resource_type": CLUSTER, "resource_name": "kafka-cluster"}
        await describe_as_alice(client, ACLOperation.DESCRIBE, error=CLUSTER_AUTHORIZATION_FAILED)
        assert await create(client, creation(**on_cluster, operation=ACLOperation.DESCRIBE)) == [0]
        await describe_as_alice(client, ACLOperation.DESCRIBE, error=0)
        deny = creation(
            **on_cluster, operation=ACLOperation.ALL, principal="User:*", permission_type=ACLPermissionType.DENY
        )
        assert await create(client, deny) == [0]
        await describe_as_alice(client, ACLOperation.DESCRIBE, error=CLUSTER_AUTHORIZATION_FAILED)
        await client.request(DeleteAclsRequest(filters=[DeleteAclsFilter(**acl_filter(permission_type=2))]), 3)
        await describe_as_alice(client, ACLOperation.DESCRIBE, error=0)

    async def after_restart(client: BrokerClient) -> None:
        await describe_as_alice(client, ACLOperation.DESCRIBE, error=0)

    with_broker(test, tmp_path, **WITH_AUTHORIZER)
    with_broker(after_restart, tmp_path, **WITH_AUTHORIZER)


def test_acls_just_created_on_another_broker_are_described(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        assert client.context.acl_store is not None
        assert client.node._store is not None
        await client.context.acl_store.close()  # without notifications: only requests trigger reads
        other = AclStore(client.node._store, lambda _: None)
        topic = ResourcePattern(TOPIC, "t")
        await other.add([ACL("User:alice", "*", ACLOperation.READ, ACLPermissionType.ALLOW, topic)])
        assert await describe_acls(client) == [(TOPIC, "t", LITERAL, "User:alice", 3)]

    with_broker(test, tmp_path, **WITH_AUTHORIZER)


def test_acl_changes_without_alter_on_the_cluster_are_denied(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        on_cluster = {"resource_type": CLUSTER, "resource_name": "kafka-cluster"}
        assert await create(client, creation(**on_cluster, operation=ACLOperation.DESCRIBE)) == [0]
        client.connection.state[USER] = "alice"
        assert await create(client, creation(), creation(principal="")) == [CLUSTER_AUTHORIZATION_FAILED] * 2
        removed = await client.request(DeleteAclsRequest(filters=[DeleteAclsFilter(**acl_filter())]), 3)
        assert [(r.error_code, r.matching_acls) for r in removed.filter_results] == [(CLUSTER_AUTHORIZATION_FAILED, [])]
        assert len(await describe_acls(client)) == 1

    with_broker(test, tmp_path, **WITH_AUTHORIZER)


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
def test_invalid_acl_is_rejected_and_the_others_are_created(wrong: dict[str, Any], tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        assert await create(client, creation(**wrong), creation()) == [INVALID_REQUEST, 0]
        assert len(await describe_acls(client)) == 1

    with_broker(test, tmp_path, **WITH_AUTHORIZER)


@pytest.mark.parametrize("unknown", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"])
def test_acl_filter_with_an_unknown_value_is_invalid(unknown: str, tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        assert await create(client, creation()) == [0]
        for value in (0, 99):
            response = await client.request(DescribeAclsRequest(**acl_filter(**{unknown: value})), 3)
            assert (response.error_code, response.resources) == (INVALID_REQUEST, [])
            filters = [
                DeleteAclsFilter(**acl_filter(**{unknown: value})),
                DeleteAclsFilter(**acl_filter(host_filter="h")),
            ]
            removed = await client.request(DeleteAclsRequest(filters=filters), 3)
            assert [(r.error_code, r.matching_acls) for r in removed.filter_results] == [(INVALID_REQUEST, []), (0, [])]
        assert len(await describe_acls(client)) == 1

    with_broker(test, tmp_path, **WITH_AUTHORIZER)


def test_version_0_excludes_prefixed_acls(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        assert await create(client, creation(), version=0) == [0]
        assert await create(client, creation(resource_pattern_type=PREFIXED), version=1) == [0]
        literal = {"pattern_type_filter": LITERAL}
        assert await describe_acls(client, version=0, **literal) == [(TOPIC, "t", LITERAL, "User:alice", 3)]
        removed = await client.request(DeleteAclsRequest(filters=[DeleteAclsFilter(**acl_filter(**literal))]), 0)
        assert [len(result.matching_acls) for result in removed.filter_results] == [1]
        assert await describe_acls(client, version=1) == [(TOPIC, "t", PREFIXED, "User:alice", 3)]

    with_broker(test, tmp_path, **WITH_AUTHORIZER)


def test_too_many_acls_in_one_request_violate_the_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_requests, "MAX_AT_ONCE", 2)

    async def test(client: BrokerClient) -> None:
        assert await create(client, *[creation()] * 3) == [POLICY_VIOLATION] * 3
        assert await describe_acls(client) == []
        removed = await client.request(DeleteAclsRequest(filters=[DeleteAclsFilter(**acl_filter())] * 3), 3)
        assert [result.error_code for result in removed.filter_results] == [POLICY_VIOLATION] * 3
        assert await create(client, *[creation()] * 2) == [0] * 2

    with_broker(test, tmp_path, **WITH_AUTHORIZER)


def test_acl_rejected_by_the_metadata_store_has_its_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise MetadataStoreTimeoutError("ZooKeeper does not answer")

    async def test(client: BrokerClient) -> None:
        assert await create(client, creation()) == [0]
        monkeypatch.setattr(SqliteMetadataStore, "get", broken)
        monkeypatch.setattr(SqliteMetadataStore, "children", broken)
        assert await create(client, creation(resource_name="other"), creation(host="")) == [-1, INVALID_REQUEST]
        removed = await client.request(
            DeleteAclsRequest(filters=[DeleteAclsFilter(**acl_filter()), DeleteAclsFilter(**acl_filter(operation=0))]),
            3,
        )
        assert [result.error_code for result in removed.filter_results] == [-1, INVALID_REQUEST]
        assert len(await describe_acls(client)) == 1  # the ACLs that were loaded before have to suffice

    with_broker(test, tmp_path, **WITH_AUTHORIZER)
