"""What a SASL listener offers: PLAIN with the users of its line of JAAS, SCRAM with those of the registry (KIP-554)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from ottla.broker.authentication import Mechanism, Offer
from ottla.cluster import entities
from ottla.config.broker import BrokerConfig
from ottla.net.sasl.plain import PlainServer
from ottla.net.sasl.scram import Credential, ScramServer

log = logging.getLogger("ottla.net")

Options = Callable[[], Mapping[str, Mapping[str, str]]]
"""What is set on users and others now, by their paths."""


def offers(config: BrokerConfig, listener: str, options: Options) -> dict[str, Offer]:
    """The mechanisms of a listener by name, in their order."""
    return {
        name: Offer(_mechanism(name, config, listener, options), config.max_reauth_ms(listener, name))
        for name in config.mechanisms(listener)
    }


def _mechanism(name: str, config: BrokerConfig, listener: str, options: Options) -> Callable[[], Mechanism]:
    if name == "PLAIN":
        return partial(PlainServer, config.passwords(listener))
    return partial(ScramServer, name, partial(_credential, name, options))


def _credential(mechanism: str, options: Options, user: str) -> Credential | None:
    """What is kept of a user's password now; None for those who have none."""
    kept = options().get(entities.entity(entities.USERS, user), {}).get(mechanism)
    if kept is None:
        return None
    try:
        return Credential.parse(kept)
    except ValueError as error:
        log.error("the %s credential of user %s cannot be read: %s", mechanism, user, error)
        return None
