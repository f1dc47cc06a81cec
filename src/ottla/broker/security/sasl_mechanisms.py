"""The SASL mechanisms of a listener: PLAIN with the users of its JAAS line, SCRAM with those of the metadata store
(KIP-554) and with delegation tokens (KIP-48), OAUTHBEARER with tokens (KIP-255).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from ottla.broker.security.sasl_authenticator import MechanismFactory, SaslMechanism
from ottla.cluster.store import config_entities
from ottla.config.broker.broker_config import BrokerConfig
from ottla.security.sasl.oauthbearer import MECHANISM, AuthenticatedUser, OAuthBearerServer
from ottla.security.sasl.plain import PlainServer
from ottla.security.sasl.scram import Credential, ScramServer, invented

if TYPE_CHECKING:
    from ottla.cluster.broker.delegation_token_store import DelegationTokenStore

log = logging.getLogger("ottla.net")

LOOKED_AT: Final = 1000
"""Maximum number of entities that are searched for an example credential, to bound the cost of a request from an
unknown user.
"""

Options = Callable[[], Mapping[str, Mapping[str, str]]]
"""A function that returns the current configs of users and other entities, by their paths."""


def offers(
    current: Callable[[], BrokerConfig],
    listener: str,
    options: Options,
    secret: Callable[[], bytes],
    tokens: DelegationTokenStore | None,
) -> dict[str, MechanismFactory]:
    """Return the listener's mechanisms by name.

    `current`: returns the current configs, because the users of PLAIN can be changed dynamically. `secret`: returns the
    key for fake credentials, which is read from the metadata store only after the listener is created.
    """
    config = current()
    return {
        name: MechanismFactory(
            _mechanism(name, current, listener, options, secret, tokens), config.max_reauth_ms(listener, name)
        )
        for name in config.mechanisms(listener)
    }


def _mechanism(
    name: str,
    current: Callable[[], BrokerConfig],
    listener: str,
    options: Options,
    secret: Callable[[], bytes],
    tokens: DelegationTokenStore | None,
) -> Callable[[], SaslMechanism]:
    if name == "PLAIN":
        return lambda: PlainServer(current().passwords(listener))
    if name == MECHANISM:
        return partial(OAuthBearerServer, _tokens(current(), listener))

    def invent(user: str) -> Credential:
        return invented(name, user, secret(), _example(name, options))

    scram = partial(ScramServer, name, partial(_credential, name, options), invent)
    return scram if tokens is None else partial(scram, partial(tokens.credential, name))


def _tokens(config: BrokerConfig, listener: str) -> Callable[[str], AuthenticatedUser]:
    """Return the function that validates the tokens of OAUTHBEARER."""
    from ottla.security.sasl.jwt_validator import (  # imported late: it takes time to load
        JwtValidator,
        UnsecuredJwtValidator,
    )
    from ottla.security.sasl.token_provider import jaas_tls_context

    oauth = config.oauth_of(listener)
    if oauth.sasl_oauthbearer_jwks_endpoint_url is not None:
        return JwtValidator(oauth, jaas_tls_context(config.jwks_endpoint_jaas(listener))).check
    log.warning(
        "Listener %s accepts unsigned tokens, which anyone can forge. Set sasl.oauthbearer.jwks.endpoint.url, except "
        "in tests",
        listener,
    )
    return UnsecuredJwtValidator(config.oauth_jaas(listener).options).check


def _credential(mechanism: str, options: Options, user: str) -> Credential | None:
    """Return the stored credential of a user; None if there is none, or it is malformed."""
    stored = options().get(config_entities.entity(config_entities.USERS, user), {}).get(mechanism)
    if stored is None:
        return None
    try:
        return Credential.parse(stored)
    except ValueError as error:
        log.error(
            "Rejecting user %s, whose stored %s credential is malformed: %s. Set it again with `ottla configs`.",
            user,
            mechanism,
            error,
        )
        return None


def _example(mechanism: str, options: Options) -> Credential | None:
    """Return the credential of any user as a model for fake ones; None if none of the first `LOOKED_AT` entities has
    one.
    """
    for path, configs in islice(options().items(), LOOKED_AT):
        if path.startswith(f"{config_entities.USERS}/") and mechanism in configs:
            try:
                return Credential.parse(configs[mechanism])
            except ValueError:
                continue
    return None
