"""The parts of a broker that only some configs need. Most of their modules are imported only with these configs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.dispatch import Dispatch
from ottla.clock import Clock
from ottla.cluster.interbroker.client import InterBrokerClient
from ottla.cluster.store.metadata_store import MetadataStore
from ottla.config.broker.broker_config import BrokerConfig
from ottla.net.server.connection import Service
from ottla.security.authorizer import Authorizer

if TYPE_CHECKING:
    from ottla.cluster.broker.acl_store import AclStore
    from ottla.cluster.broker.delegation_token_store import DelegationTokenStore
    from ottla.coordinator.transaction.add_partitions import AddPartitionsClient

log = logging.getLogger("ottla.broker")


def build_authorizer(
    config: BrokerConfig, store: MetadataStore, clock: Clock
) -> tuple[Authorizer | None, AclStore | None]:
    """Return the authorizer and the store of its ACLs; (None, None) if no authorizer is configured."""
    if not config.authorizer_class_name:
        return None, None
    from ottla.cluster.broker.acl_store import AclStore

    if not config.super_users and not config.allow_everyone_if_no_acl_found:
        log.warning(
            "super.users is empty, so only clients with an ACL for ALTER on the cluster can create ACLs. If there is "
            "no such ACL, set super.users."
        )
    authorizer = Authorizer(config.super_users, allow_everyone=config.allow_everyone_if_no_acl_found)
    return authorizer, AclStore(store, authorizer.replace, clock.monotonic)


def build_delegation_tokens(config: BrokerConfig, store: MetadataStore, clock: Clock) -> DelegationTokenStore | None:
    """Return the store of delegation tokens; None if no master key is configured."""
    if not config.delegation_token_key:
        return None
    from ottla.cluster.broker.delegation_token_store import DelegationTokenStore

    return DelegationTokenStore(
        store,
        config.delegation_token_key,
        max_lifetime_ms=config.delegation_token_max_lifetime_ms,
        renew_period_ms=config.delegation_token_expiry_time_ms,
        clock=clock,
    )


def build_add_partitions(config: BrokerConfig, inter_broker: InterBrokerClient) -> AddPartitionsClient | None:
    """Return the client that adds or verifies the partitions of transactions at other brokers; None for a standalone
    broker.
    """
    if not config.in_cluster:
        return None
    from ottla.coordinator.transaction.add_partitions import AddPartitionsClient

    return AddPartitionsClient(inter_broker, config.request_timeout_ms / 1000)


def build_service(
    config: BrokerConfig,
    listener: str,
    dispatch: Dispatch,
    current: Callable[[], BrokerConfig],
    scram_secret: Callable[[], bytes],
) -> Service:
    """Return the service of a listener, which authenticates clients first if the listener uses SASL.

    `current`: returns the config with its dynamic changes. `scram_secret`: returns the key for fake credentials of
    unknown users.
    """
    if not config.security_protocol(listener).startswith("SASL"):
        return dispatch
    from ottla.broker.security.sasl_authenticator import SaslAuthenticator
    from ottla.broker.security.sasl_mechanisms import offers

    broker = dispatch.broker
    return SaslAuthenticator(
        dispatch,
        offers(current, listener, lambda: broker.image.configs, scram_secret, broker.delegation_tokens),
        failure_delay_ms=config.connection_failed_authentication_delay_ms,
        max_frame_bytes=config.socket_request_max_bytes,
    )
