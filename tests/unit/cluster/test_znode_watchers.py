"""Changes that other tools write into the store are applied; here with SQLite, in tests/interop with ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from ottla.cluster.broker.lifecycle import BrokerLifecycle
from ottla.cluster.controller.controller import Controller
from ottla.cluster.image import store_reader
from ottla.cluster.image.cluster_image import BrokerImage
from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import Create, MetadataStore, MetadataStoreError, Set
from ottla.cluster.store.sqlite_store import SqliteMetadataStore
from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.broker.listener_config import Endpoint

BROKER = BrokerImage(1, (Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),))


def _allows_unclean(_topic: str, configs: Mapping[str, str]) -> bool:
    return configs.get("unclean.leader.election.enable") == "true"


async def join(store: MetadataStore) -> BrokerLifecycle:
    member = BrokerLifecycle(
        store, BrokerConfig({}), BROKER.id, stop=lambda tp, delete: None, unclean_allowed=_allows_unclean
    )
    await member.prepare(None)
    await member.register(BROKER)
    await member.join()
    return member


def run_with_controller(
    test: Callable[[MetadataStore, Controller, asyncio.Queue[None]], Awaitable[None]], directory: Path
) -> None:
    """Run a test beside a controller that watches the store; the queue gets an item with each image."""

    async def inner() -> None:
        store = SqliteMetadataStore(directory)
        await store.open()
        member = await join(store)
        changes: asyncio.Queue[None] = asyncio.Queue()

        async def on_change(before: object, after: object) -> None:
            changes.put_nowait(None)

        member.metadata_cache.on_change(on_change)
        try:
            await test(store, member.controller, changes)
        finally:
            await member.close()
            await store.close()

    asyncio.run(asyncio.wait_for(inner(), 10))


def test_topic_created_without_an_id_gets_a_permanent_one(tmp_path: Path) -> None:
    async def test(store: MetadataStore, controller: Controller, changes: asyncio.Queue[None]) -> None:
        await store.multi([Create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1]}}')])
        await changes.get()
        before = controller.image.topics["t"]
        await store.multi([Set("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1],"1":[2]}}')])
        await changes.get()
        after = controller.image.topics["t"]
        assert after.id == before.id
        assert [(p.leader, p.isr) for p in after.partitions] == [(1, (1,)), (-1, (2,))]

    run_with_controller(test, tmp_path)


@pytest.mark.parametrize(
    "notification_value",
    [b'{"version":1,"entity_type":"clients","entity_name":"app"}', b'{"version":2,"entity_path":"clients/app"}'],
    ids=["0.9", "0.10.1"],
)
def test_configs_are_read_again_after_a_notification(notification_value: bytes, tmp_path: Path) -> None:
    async def test(store: MetadataStore, controller: Controller, changes: asyncio.Queue[None]) -> None:
        value = znodes.config_value({"producer_byte_rate": "1000"})
        notification = Create("/config/changes/config_change_", b"nonsense", sequence=True)
        await store.multi(
            [Create("/config/clients/app", value), notification, notification._replace(value=notification_value)]
        )
        await changes.get()
        assert controller.image.configs == {"clients/app": {"producer_byte_rate": "1000"}}

    run_with_controller(test, tmp_path)


def test_notification_of_0_8_is_applied_and_malformed_ones_are_ignored(tmp_path: Path) -> None:
    async def test(store: MetadataStore, controller: Controller, changes: asyncio.Queue[None]) -> None:
        await controller.topics.create("t", [[1]], {})
        notification = Create("/config/changes/config_change_", b"[]", sequence=True)
        value = b'{"version":1,"config":{"retention.ms":5000,"cleanup.policy":"compact"}}'
        await store.multi(
            [
                notification,
                notification._replace(value=b"3"),
                notification._replace(value=b'"t"'),
                Set("/config/topics/t", value),
            ]
        )
        while not controller.image.topics["t"].configs:
            await changes.get()
        assert controller.image.topics["t"].configs == {"retention.ms": "5000", "cleanup.policy": "compact"}

    run_with_controller(test, tmp_path)


def test_deletion_request_with_many_topics_is_split(tmp_path: Path) -> None:
    async def test(store: MetadataStore, controller: Controller, changes: asyncio.Queue[None]) -> None:
        for name in ("foo", "bar", "stays"):
            await controller.topics.create(name, [[1]], {})
        await store.multi([Set("/admin/delete_topics", b'{"version":1,"topics":["foo","bar","never-was"]}')])
        while await store.children("/brokers/topics") != ["stays"] or await store.children("/admin/delete_topics"):
            await asyncio.sleep(0)
        node = await store.get("/admin/delete_topics")
        assert node is not None
        assert node.value == b""
        for unreadable in (b"not JSON", b"[]", b'{"topics":["a/b"]}', b'{"topics":3}'):
            await store.multi([Set("/admin/delete_topics", unreadable)])
            while (node := await store.get("/admin/delete_topics")) is not None and node.value:
                await asyncio.sleep(0)
        assert list(controller.image.topics) == ["stays"]

    run_with_controller(test, tmp_path)


def test_unclean_leader_is_elected_when_the_config_allows_it(tmp_path: Path) -> None:
    lost = b'{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":4,"isr":[2]}'
    changed = znodes.config_value({"unclean.leader.election.enable": "true"})
    notification_value = b'{"version":2,"entity_path":"topics/t"}'

    async def test(store: MetadataStore, controller: Controller, changes: asyncio.Queue[None]) -> None:
        topic = "/brokers/topics/t"
        nodes = [(f"{topic}/partitions", b""), (f"{topic}/partitions/0", b""), (f"{topic}/partitions/0/state", lost)]
        await store.multi(
            [Create(topic, b'{"version":1,"partitions":{"0":[2,1]}}'), *(Create(*node) for node in nodes)]
        )
        while "t" not in controller.image.topics:
            await changes.get()
        assert controller.image.topics["t"].partitions[0].leader == -1
        await store.multi(
            [
                Create("/config/topics/t", changed),
                Create("/config/changes/config_change_", notification_value, sequence=True),
            ]
        )
        while controller.image.topics["t"].partitions[0].leader == -1:
            await changes.get()
        after = controller.image.topics["t"].partitions[0]
        assert (after.leader, after.leader_epoch, after.isr) == (1, 5, (1,))

    run_with_controller(test, tmp_path)


def test_malformed_topics_are_skipped_at_start(tmp_path: Path) -> None:
    async def inner() -> None:
        store = SqliteMetadataStore(tmp_path)
        await store.open()
        first = await join(store)
        await first.controller.topics.create("good", [[1]], {})
        await store.multi([Create("/brokers/topics/bad", b"not JSON")])
        await first.close()
        await store.close()
        again = SqliteMetadataStore(tmp_path)
        await again.open()
        second = await join(again)
        assert list(second.metadata_cache.image.topics) == ["good"]
        await second.close()
        await again.close()

    asyncio.run(inner())


def test_malformed_brokers_and_events_are_skipped(tmp_path: Path) -> None:
    other = store_reader.broker_value(BrokerImage(2, (Endpoint("PLAINTEXT", "127.0.0.1", 9093, "PLAINTEXT"),)))

    async def test(store: MetadataStore, controller: Controller, changes: asyncio.Queue[None]) -> None:
        for number, wrong in enumerate((b"not JSON", b"[]", b"{}", b'{"host":"h","port":"x"}'), start=90):
            await store.multi([Create(f"/brokers/ids/{number}", wrong)])
        await store.multi([Create("/brokers/ids/2", other)])
        while len(controller.image.brokers) < 2:
            await changes.get()
        event = Create("/log_dir_event_notification/log_dir_event_", b"not JSON", sequence=True)
        await store.multi([event, event._replace(value=b"3"), event._replace(value=znodes.log_dir_event(2))])
        while await store.children("/log_dir_event_notification"):
            await asyncio.sleep(0)

    run_with_controller(test, tmp_path)


def test_malformed_configs_are_skipped_at_start(tmp_path: Path) -> None:
    async def inner() -> None:
        store = SqliteMetadataStore(tmp_path)
        await store.open()
        first = await join(store)
        await first.controller.topics.create("t", [[1]], {})
        await store.multi([Set("/config/topics/t", b"not JSON"), Create("/config/topics/never-was", b"[]")])
        await store.multi([Create("/config/brokers/1", b"null"), Create("/config/clients/a", b'{"config":3}')])
        await first.close()
        await store.close()
        again = SqliteMetadataStore(tmp_path)
        await again.open()
        second = await join(again)
        assert (second.metadata_cache.image.topics["t"].configs, second.metadata_cache.image.configs) == ({}, {})
        assert second.controller.is_active
        await second.close()
        await again.close()

    asyncio.run(inner())


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b'{"partitions":{"1":[1]}}',
        b'{"partitions":{"0":[]}}',
        b'{"partitions":3}',
        b'{"partitions":{"0":[1e999]}}',
        b'{"partitions":{"0":[Infinity]}}',
    ],
)
def test_malformed_assignment_is_rejected_with_its_path(raw: bytes) -> None:
    with pytest.raises(MetadataStoreError, match="/brokers/topics/t is not a replica assignment"):
        znodes.topic_layout("t", raw)
