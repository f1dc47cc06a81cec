"""Options of brokers that can be set while they run (KIP-226): on one broker, or on all of them (the empty name)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.broker.config_entries import Entry, broker_entries, dynamic_entries
from ottla.broker.services import Call
from ottla.cluster import entities
from ottla.config.broker import DYNAMIC, BrokerConfig
from ottla.errors import ConfigurationError, InvalidConfigError, InvalidRequestError


class BrokerResource:
    """Set in the registry under `/config/brokers`; what is set on one broker beats what is set on all."""

    lists = frozenset({"log.cleanup.policy", "max.connections.per.ip.overrides"})

    def names(self, call: Call) -> Iterable[str]:
        return map(str, call.services.image.brokers)

    def entries(self, name: str, call: Call) -> Iterable[Entry]:
        _check_name(name, call)
        if name == "":
            return dynamic_entries(self.options(name, call))
        return broker_entries(call.services.live)

    def options(self, name: str, call: Call) -> Mapping[str, str]:
        _check_name(name, call)
        return call.services.image.options.get(_path(name), {})

    def check(self, name: str, options: Mapping[str, str | None], call: Call) -> dict[str, str]:
        checked: dict[str, str] = {}
        for key, value in options.items():
            if key not in DYNAMIC:
                known = "Cannot update these configs dynamically" if key in BrokerConfig.options else "Unknown config"
                raise InvalidRequestError(f"{known}: {key}")
            if value is None:
                raise InvalidRequestError(f"Null value not supported for: {key}")
            checked[key] = value
        try:
            call.services.config.replace(checked)
        except ConfigurationError as error:
            raise InvalidConfigError(error.message) from None
        return checked

    async def set(self, name: str, options: Mapping[str, str], call: Call) -> None:
        await call.services.controller.set_options(_path(name), options)


def _path(name: str) -> str:
    return entities.entity(entities.BROKERS, name or None)


def _check_name(name: str, call: Call) -> None:
    brokers = call.services.image.brokers
    if name and (not name.isdecimal() or int(name) not in brokers):
        raise InvalidRequestError(f"Unexpected broker id {name!r}; known: {sorted(brokers)}")
