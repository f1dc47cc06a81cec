"""ACLs of several brokers over one tree, in memory or in a file, as Kafka writes and reads them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cluster.shared_tree import SharedTree

from ottla.cluster.broker import acl_store
from ottla.cluster.broker.acl_store import AclStore
from ottla.cluster.store import change_notifications, znodes
from ottla.cluster.store.metadata_store import Create, Delete, MetadataStore, Set
from ottla.cluster.store.sqlite_store import SqliteMetadataStore
from ottla.errors import InvalidRequestError
from ottla.model import ACLOperation
from ottla.security.acl import (
    ACL,
    ACLFilter,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

SECONDS = 10
TOPIC = ResourcePattern(ResourceType.TOPIC, "orders")
PREFIX = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "app-", ACLResourcePatternType.PREFIXED)


def acl(
    pattern: ResourcePattern = TOPIC, principal: str = "User:alice", operation: ACLOperation = ACLOperation.READ
) -> ACL:
    return ACL(principal, "*", operation, ACLPermissionType.ALLOW, pattern)


def deny_all(pattern: ResourcePattern) -> ACL:
    return ACL("User:*", "*", ACLOperation.ALL, ACLPermissionType.DENY, pattern)


class Broker:
    """A store, and the ACLs of the last call of its listener."""

    def __init__(self, store: MetadataStore, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.store = AclStore(store, self._on_acls, monotonic)
        self.acls: set[ACL] = set()
        self._changed = asyncio.Event()

    def _on_acls(self, acls: Collection[ACL]) -> None:
        assert len(set(acls)) == len(acls)
        self.acls = set(acls)
        self._changed.set()

    async def until(self, acls: set[ACL]) -> None:
        async with asyncio.timeout(SECONDS):
            while self.acls != acls:
                self._changed.clear()
                await self._changed.wait()

    async def start(self) -> Broker:
        await self.store.start()
        return self


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 2 * SECONDS))


def in_memory(test: Callable[[SharedTree, MetadataStore], Coroutine[Any, Any, None]]) -> None:
    async def on_tree() -> None:
        tree = SharedTree()
        await test(tree, tree.session())

    run(on_tree())


async def notifications(store: MetadataStore) -> list[bytes]:
    stored = []
    for parent in ("/kafka-acl-changes", "/kafka-acl-extended-changes"):
        for name in await store.children(parent):
            assert name.startswith("acl_changes_0")
            node = await store.get(f"{parent}/{name}")
            assert node is not None
            stored.append(node.value)
    return stored


def test_acls_have_kafkas_paths(tmp_path: Path) -> None:
    async def test() -> None:
        store = SqliteMetadataStore(tmp_path)
        await store.open()
        broker = await Broker(store).start()
        for parent in ("/kafka-acl", "/kafka-acl-extended/prefixed"):
            assert await store.children(parent) == ["Cluster", "Group", "Topic"]
        write = acl(PREFIX, operation=ACLOperation.IDEMPOTENT_WRITE)
        assert await broker.store.add([acl(), write]) == [None, None]
        assert broker.acls == {acl(), write}
        node = await store.get("/kafka-acl/Topic/orders")
        assert node is not None
        assert json.loads(node.value) == {
            "version": 1,
            "acls": [{"principal": "User:alice", "permissionType": "Allow", "operation": "Read", "host": "*"}],
        }
        node = await store.get("/kafka-acl-extended/prefixed/TransactionalId/app-")
        assert node is not None
        assert json.loads(node.value)["acls"][0]["operation"] == "IdempotentWrite"
        literal, extended = await notifications(store)
        assert literal == b"TOPIC:orders"
        assert json.loads(extended) == {
            **{"version": 1, "resourceType": "TRANSACTIONAL_ID", "name": "app-", "patternType": "PREFIXED"}
        }
        await broker.store.close()
        await store.close()
        await store.open()
        again = await Broker(store).start()
        assert again.acls == {acl(), write}
        await again.store.close()
        await store.close()

    run(test())


def test_change_is_applied_by_other_brokers() -> None:
    async def test(tree: SharedTree, _: MetadataStore) -> None:
        one, two = [await Broker(tree.session()).start() for _ in range(2)]
        await one.store.add([acl(), acl(PREFIX)])
        await two.until({acl(), acl(PREFIX)})
        removed = await two.store.remove([ACLFilter(principal="User:alice")])
        assert removed == [[(acl(), None), (acl(PREFIX), None)]]
        await one.until(set())
        assert "/kafka-acl/Topic/orders" not in tree.nodes
        await one.store.close()
        await one.store.close()
        await two.store.add([acl()])
        assert one.acls == set()

    in_memory(test)


def test_existing_acl_is_not_written_again() -> None:
    async def test(tree: SharedTree, store: MetadataStore) -> None:
        broker = await Broker(store).start()
        assert await broker.store.add([acl(), acl()]) == [None, None]
        version = tree.nodes["/kafka-acl/Topic/orders"].version
        assert await broker.store.add([acl()]) == [None]
        assert tree.nodes["/kafka-acl/Topic/orders"].version == version
        assert len(await notifications(store)) == 1

    in_memory(test)


def test_concurrent_additions_to_a_resource_are_all_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_store, "RETRY_SECONDS", 0)

    async def test(tree: SharedTree, store: MetadataStore) -> None:
        brokers = [await Broker(tree.session()).start() for _ in range(4)]
        acls = [acl(principal=f"User:{n}") for n in range(4)]
        await asyncio.gather(*(b.store.add([r]) for b, r in zip(brokers, acls, strict=True)))
        node = await store.get("/kafka-acl/Topic/orders")
        assert node is not None
        assert znodes.acls_of(TOPIC, node.value) == set(acls)
        assert node.version == 3

    in_memory(test)


def test_remove_deletes_the_acls_that_match_each_filter() -> None:
    async def test(tree: SharedTree, store: MetadataStore) -> None:
        broker, other = [await Broker(tree.session()).start() for _ in range(2)]
        alice, bob = acl(), acl(principal="User:bob")
        elsewhere = acl(ResourcePattern(ResourceType.TOPIC, "other"))
        await other.store.add([alice, bob, elsewhere, acl(PREFIX)])
        matching = ResourcePatternFilter(ResourceType.TRANSACTIONAL_ID, "app-1", ACLResourcePatternType.MATCH)
        removed = await broker.store.remove(
            [
                ACLFilter(principal="User:bob", resource_pattern=TOPIC),
                ACLFilter(resource_pattern=matching),
                ACLFilter(principal="User:carol"),
                ACLFilter(principal="User:bob"),
            ]
        )
        assert removed == [[(bob, None)], [(acl(PREFIX), None)], [], [(bob, None)]]
        assert broker.acls == {alice, elsewhere}
        assert broker.store.matching(ACLFilter()) == [alice, elsewhere]
        assert broker.store.matching(ACLFilter(resource_pattern=TOPIC)) == [alice]

    in_memory(test)


def test_remove_returns_the_error_of_a_znode_that_cannot_be_read() -> None:
    async def test(tree: SharedTree, store: MetadataStore) -> None:
        broker = await Broker(tree.session()).start()
        bob = acl(principal="User:bob")
        await broker.store.add([acl(), bob])
        await broker.store.refresh()
        await store.multi([Set("/kafka-acl/Topic/orders", b"{")])  # without a notification, so it is not noticed yet
        bobs = ACLFilter(principal="User:bob", resource_pattern=TOPIC)
        [[(failed, error)]] = await broker.store.remove([bobs])
        assert failed == bob
        assert "/kafka-acl/Topic/orders is malformed" in str(error)

    in_memory(test)


def test_acls_of_other_versions_are_read() -> None:
    async def test(tree: SharedTree, store: MetadataStore) -> None:
        broker = await Broker(store).start()
        entry = {"host": "h", "permissionType": "DENY", "operation": "DescribeConfigs", "principal": "User:CN=a:b"}
        stored = ACL("User:CN=a:b", "h", ACLOperation.DESCRIBE_CONFIGS, ACLPermissionType.DENY, TOPIC)
        value = json.dumps({"version": 1, "acls": [entry, entry]}).encode()
        await store.multi([Create("/kafka-acl/Topic/orders", value)])
        await store.multi([Create("/kafka-acl-changes/acl_changes_", b"Topic:orders", sequence=True)])
        await broker.until({stored})
        other = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "a:b")
        writes = [
            Create("/kafka-acl/TransactionalId"),
            Create("/kafka-acl/TransactionalId/a:b", znodes.acls_value([acl(other)])),
            Create("/kafka-acl-changes/acl_changes_", b"TransactionalId:a:b", sequence=True),
        ]
        await store.multi(writes)
        await broker.until({stored, acl(other)})
        empty: list[Set | Create] = [
            Set("/kafka-acl/Topic/orders", b""),
            Create("/kafka-acl-changes/acl_changes_", b"TOPIC:orders", sequence=True),
        ]
        await store.multi(empty)
        await broker.until({acl(other)})

    in_memory(test)


@pytest.mark.parametrize(
    ("notification", "pattern"),
    [
        (b"Topic:orders", TOPIC),
        (b"TOPIC:a:b", ResourcePattern(ResourceType.TOPIC, "a:b")),
        (b"TransactionalId:x", ResourcePattern(ResourceType.TRANSACTIONAL_ID, "x")),
        (b"TRANSACTIONAL_ID:x", ResourcePattern(ResourceType.TRANSACTIONAL_ID, "x")),
        (znodes.acl_change(PREFIX), PREFIX),
        (znodes.acl_change(TOPIC), TOPIC),
    ],
)
def test_changed_acls_parses_notifications(notification: bytes, pattern: ResourcePattern) -> None:
    assert znodes.changed_acls(notification) == pattern


@pytest.mark.parametrize(
    "notification",
    [
        *(b"", b"Topic", b"Topic:", b"Topic:a/b", b"Drink:tea", b"\xff:a", b"{", b"{}", b"[1]"),
        b'{"version":1,"resourceType":"TOPIC","name":"orders","patternType":"MATCH"}',
    ],
)
def test_malformed_notification_makes_the_broker_read_all_acls(notification: bytes) -> None:
    async def test(tree: SharedTree, store: MetadataStore) -> None:
        broker = await Broker(store).start()
        await store.multi([Create("/kafka-acl/Topic/orders", znodes.acls_value([acl()]))])
        await store.multi([Create("/kafka-acl-changes/acl_changes_", notification, sequence=True)])
        await broker.until({acl()})
        await store.multi([Delete("/kafka-acl/Topic/orders")])
        await store.multi([Create("/kafka-acl-changes/acl_changes_", notification, sequence=True)])
        await broker.until(set())

    in_memory(test)


BAD = b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"%s","host":"*"}%s]}'


@pytest.mark.parametrize(
    "value",
    [
        *(
            b"{",
            b"[]",
            b"{}",
            b'{"version":2,"acls":[]}',
            b"[" * 100_000,
            BAD % (b"Read", b",{}"),
            BAD % (b"Sing", b""),
        ),
        *(BAD.replace(b"Allow", b"Any") % (b"Read", b""), BAD.replace(b"User:a", b"alice") % (b"Read", b"")),
    ],
)
def test_malformed_acls_deny_access_to_their_resource(value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def test(tree: SharedTree, store: MetadataStore) -> None:
        before = await Broker(tree.session()).start()
        await before.store.add([acl(PREFIX)])
        await store.multi([Create("/kafka-acl/Topic/orders", value)])
        broker = await Broker(store).start()
        assert broker.acls == {acl(PREFIX), deny_all(TOPIC)}
        assert broker.store.matching(ACLFilter()) == [acl(PREFIX)]
        assert "/kafka-acl/Topic/orders is malformed" in caplog.text
        other = acl(ResourcePattern(ResourceType.GROUP, "g"))
        failed, added = await broker.store.add([acl(), other])
        assert (failed is not None, added) == (True, None)
        assert tree.nodes["/kafka-acl/Topic/orders"].value == value
        await store.multi([Set("/kafka-acl/Topic/orders", znodes.acls_value([acl()]))])
        await store.multi([Create("/kafka-acl-changes/acl_changes_", b"Topic:orders", sequence=True)])
        await broker.until({acl(PREFIX), other, acl()})

    in_memory(test)


def test_malformed_acls_can_be_replaced_after_their_znode_was_deleted(caplog: pytest.LogCaptureFixture) -> None:
    async def test(tree: SharedTree, store: MetadataStore) -> None:
        await store.multi([Create("/kafka-acl"), Create("/kafka-acl/Topic"), Create("/kafka-acl/Topic/orders", b"{")])
        broker, other = await Broker(store).start(), await Broker(tree.session()).start()
        assert broker.acls == other.acls == {deny_all(TOPIC)}
        assert "delete the znode, and add its ACLs again" in caplog.text
        await store.multi([Delete("/kafka-acl/Topic/orders")])
        assert await broker.store.add([acl()]) == [None]
        await broker.until({acl()})
        await other.until({acl()})

    in_memory(test)


def test_expired_notifications_are_deleted_and_late_brokers_read_all_acls() -> None:
    async def test(tree: SharedTree, store: MetadataStore) -> None:
        now = [1000.0]
        broker = await Broker(tree.session(), lambda: now[0]).start()
        await broker.store.close()
        await store.multi([Create("/kafka-acl/Topic/orders", znodes.acls_value([acl()]))])
        await broker.store.refresh()
        assert broker.acls == set()  # its listener was not called
        now[0] += change_notifications.EXPIRY_SECONDS / 2 + 1
        await broker.store.refresh()
        assert broker.acls == {acl()}
        await broker.store.add([acl(PREFIX)])
        await broker.store.refresh()
        now[0] += change_notifications.EXPIRY_SECONDS - 1
        await broker.store.refresh()
        assert len(await notifications(store)) == 1
        now[0] += 2
        await broker.store.refresh()
        assert await notifications(store) == []

    in_memory(test)


def test_acls_larger_than_a_znode_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_store, "MAX_NODE_BYTES", 200)

    async def test(tree: SharedTree, store: MetadataStore) -> None:
        broker = await Broker(store).start()
        outcomes = await broker.store.add([acl(), acl(principal="User:" + "x" * 200), acl(PREFIX)])
        assert [type(outcome) for outcome in outcomes] == [InvalidRequestError, InvalidRequestError, type(None)]
        assert broker.acls == {acl(PREFIX)}

    in_memory(test)


def test_acls_remain_while_the_store_is_unreachable(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(change_notifications, "REFRESH_SECONDS", 0.01)

    async def test(tree: SharedTree, _: MetadataStore) -> None:
        session = tree.session()
        broker, other = await Broker(session).start(), await Broker(tree.session()).start()
        await broker.store.add([acl()])
        session.pause()
        await other.store.add([acl(PREFIX)])
        await broker.store.refresh()
        assert "Cannot read" in caplog.text
        assert broker.acls == {acl()}
        session.resume()
        await broker.until({acl(), acl(PREFIX)})

    in_memory(test)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\x00", "a\n", "\x7f", "\ue000", "\uffff", "😀"])
def test_invalid_znode_names_are_rejected(name: str) -> None:
    assert not znodes.is_valid_name(name)
    assert all(map(znodes.is_valid_name, ("*", "a.b", "CN=a,O=b", "größe", "...", "a b")))
