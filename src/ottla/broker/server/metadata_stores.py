"""Creation of the metadata store that several brokers share, SQLite or ZooKeeper. The caller opens it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cluster.store.sqlite_store import SqliteMetadataStore
from ottla.config.broker.broker_config import BrokerConfig

if TYPE_CHECKING:
    from ottla.cluster.store.zookeeper_store import ZooKeeperMetadataStore


def shared_store(config: BrokerConfig) -> SqliteMetadataStore:
    """Return the SQLite store that several brokers on one machine share."""
    assert config.ottla_metadata_dir is not None
    return SqliteMetadataStore(
        Path(config.ottla_metadata_dir), shared=True, session_timeout_ms=config.session_timeout_ms
    )


def zookeeper_store(config: BrokerConfig) -> ZooKeeperMetadataStore:
    """Return the store of a ZooKeeper ensemble."""
    assert config.zookeeper_connect is not None
    from ottla.cluster.store.zookeeper_store import (  # a standalone broker starts without it
        Security,
        ZooKeeperMetadataStore,
    )

    session_ms = config.zookeeper_session_timeout_ms
    return ZooKeeperMetadataStore(
        config.zookeeper_connect,
        session_timeout_ms=session_ms,
        connection_timeout_ms=config.zookeeper_connection_timeout_ms or session_ms,
        security=Security(
            tls=config.zookeeper_ssl_client_enable,
            key_store=config.zookeeper_ssl_keystore_location,
            key_password=config.zookeeper_ssl_keystore_password,
            trust_store=config.zookeeper_ssl_truststore_location,
            checks_hostname=bool(config.zookeeper_ssl_endpoint_identification_algorithm),
            set_acl=config.zookeeper_set_acl,
        ),
    )
