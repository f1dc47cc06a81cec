"""ZooKeeper with mutual TLS: znodes of brokers have ACLs, and untrusted servers are rejected."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
pytest.importorskip("kazoo")

from tests.interop.certified import identities as identities

from ottla.cluster.store.metadata_store import Create, MetadataStoreError, Set
from ottla.cluster.store.zookeeper_store import Security, ZooKeeperMetadataStore
from ottla.errors import StartupError
from ottla.net.ports import free_port
from ottla.zookeeper_server import ZooKeeperServer

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory, identities: dict[str, Path]) -> Iterator[str]:
    folder, port = tmp_path_factory.mktemp("zookeeper"), free_port()
    trusted = folder / "trusted.pem"
    trusted.write_text(identities["broker"].read_text() + identities["stranger"].read_text())
    settings = {
        "secureClientPort": port,
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        "ssl.keyStore.location": identities["server"],
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": trusted,
        "ssl.trustStore.type": "PEM",
    }
    with ZooKeeperServer(folder, settings=settings):
        yield f"localhost:{port}/secured"


def security(identities: dict[str, Path], name: str, trusted: str = "server") -> Security:
    return Security(tls=True, key_store=str(identities[name]), trust_store=str(identities[trusted]), set_acl=True)


async def open_store(connect: str, how: Security) -> ZooKeeperMetadataStore:
    store = ZooKeeperMetadataStore(connect, session_timeout_ms=5_000, connection_timeout_ms=5_000, security=how)
    await store.open()
    return store


def test_znodes_of_brokers_cannot_be_changed_by_others(connect: str, identities: dict[str, Path]) -> None:
    async def test() -> None:
        broker = await open_store(connect, security(identities, "broker"))
        await broker.multi(
            [Create("/open"), Create("/config"), Create("/config/users", b"secret"), Create("/consumers")]
        )
        stranger = await open_store(connect, security(identities, "stranger"))
        assert await stranger.get("/open") is not None
        for refused in (Set("/open", b"x"), Create("/open/below")):
            with pytest.raises(MetadataStoreError):
                await stranger.multi([refused])
        with pytest.raises(MetadataStoreError):
            await stranger.get("/config/users")
        await stranger.multi([Create("/consumers/g")])
        await broker.multi([Set("/open", b"x")])
        await stranger.close()
        await broker.close()

    asyncio.run(asyncio.wait_for(test(), 60))


def test_broker_does_not_connect_to_an_untrusted_zookeeper(connect: str, identities: dict[str, Path]) -> None:
    async def test() -> None:
        with pytest.raises(StartupError, match=r"zookeeper\.connect"):
            await open_store(connect, security(identities, "broker", trusted="stranger"))

    asyncio.run(asyncio.wait_for(test(), 60))
