"""Dynamic configs of brokers (KIP-226): of one broker, or of all of them (the empty name)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from itertools import chain

from ottla.broker.config.config_entries import Entry, broker_entries, dynamic_entries, unknown_entries
from ottla.broker.request_context import RequestContext
from ottla.broker.security.certificates import check_certificates
from ottla.cluster.image.cluster_image import CORDONED
from ottla.cluster.store import config_entities
from ottla.config.broker.broker_config import DYNAMIC, PLAIN_USERS, BrokerConfig, renewed_listener
from ottla.config.options import is_secret
from ottla.errors import ConfigurationError, InvalidConfigError, InvalidRequestError
from ottla.security.acl import ResourceType

log = logging.getLogger("ottla.broker")


class BrokerResource:
    """Brokers, whose dynamic configs are stored below `/config/brokers`.

    Configs of one broker override those of all brokers.

    As in Kafka, unknown configs are stored, because they may belong to a plug-in, but their values are not shown.
    """

    ruled_as = ResourceType.CLUSTER
    lists = frozenset({"log.cleanup.policy", "max.connections.per.ip.overrides", CORDONED})

    def path(self, name: str) -> str:
        return config_entities.entity(config_entities.BROKERS, name or None)

    def names(self, context: RequestContext) -> Iterable[str]:
        return map(str, context.broker.image.brokers)

    def entries(self, name: str, context: RequestContext) -> Iterable[Entry]:
        _check_name(name, context)
        own, for_all = self.options(name, context), self.options("", context)
        if name == "":
            return dynamic_entries(for_all)
        return chain(broker_entries(context.broker.dynamic_config), unknown_entries(own, for_all))

    def options(self, name: str, context: RequestContext) -> Mapping[str, str]:
        _check_name(name, context)
        return context.broker.image.configs.get(self.path(name), {})

    def check(self, name: str, options: Mapping[str, str | None], context: RequestContext) -> dict[str, str]:
        checked: dict[str, str] = {}
        for key, value in options.items():
            if key in BrokerConfig.options and key not in DYNAMIC:
                raise InvalidRequestError(f"Cannot update these configs dynamically: {key}")
            if key == CORDONED and name == "":
                raise InvalidRequestError(f"Cannot update these configs at default cluster level: {key}")
            if value is None:
                raise InvalidRequestError(f"Null value not supported for: {key}")
            listener = renewed_listener(key)
            if listener is not None:
                _check_renewed(name, key, context.broker.config, is_new=key not in self.options(name, context))
            elif key not in BrokerConfig.options:
                log.warning(
                    "Dynamic config %s of %s has no effect: Ottla does not have it, or only at the start of a broker",
                    key,
                    f"broker {name}" if name else "all brokers",
                )
            checked[key] = value
        listeners = {listener for key in checked if (listener := renewed_listener(key)) is not None}
        try:
            merged = {key: value for key, value in checked.items() if key in DYNAMIC or renewed_listener(key)}
            check_certificates(context.broker.config.replace(merged), listeners)
        except ConfigurationError as error:
            raise InvalidConfigError(error.message) from None
        return checked

    async def set(self, name: str, options: Mapping[str, str], context: RequestContext) -> None:
        is_again = options == context.broker.image.configs.get(self.path(name))
        await context.broker.config_store.set(self.path(name), options)
        if is_again:
            # setting the same value again means that the certificate file has changed
            context.broker.renew_certificates()


def _check_renewed(name: str, key: str, config: BrokerConfig, *, is_new: bool) -> None:
    """Check that a config of a listener's certificates or PLAIN users can be set dynamically.

    It must be set for one broker; a new one must belong to a listener that uses TLS or, for users, PLAIN; a secret
    cannot be set if the metadata store is ZooKeeper. Raises InvalidRequestError or InvalidConfigError.
    """
    if name == "":
        raise InvalidRequestError(f"Cannot update these configs at default cluster level: {key}")
    plain = key.endswith(PLAIN_USERS)
    fitting = [e.name.lower() for e in config.listeners if (_has_plain if plain else _has_tls)(config, e.name)]
    if is_new and renewed_listener(key) not in fitting:
        kind = "SASL PLAIN" if plain else "TLS"
        raise InvalidConfigError(f"{key}: no such listener with {kind}; there are: {', '.join(fitting) or 'none'}")
    if is_secret(key) and config.zookeeper_connect is not None:
        raise InvalidRequestError(f"{key} would be readable in ZooKeeper; set it in the broker's properties file")


def _has_tls(config: BrokerConfig, listener: str) -> bool:
    return config.security_protocol(listener).endswith("SSL")


def _has_plain(config: BrokerConfig, listener: str) -> bool:
    return config.security_protocol(listener).startswith("SASL") and "PLAIN" in config.mechanisms(listener)


def _check_name(name: str, context: RequestContext) -> None:
    own = context.broker.broker_id
    if name not in ("", str(own)):
        # this broker does not know the file configs of another broker
        raise InvalidRequestError(f"Unexpected broker id, expected {own} or empty string, but received {name}")
