"""Subscriptions to client metrics (KIP-714). Each subscription is a resource."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ottla.broker.config.config_entries import Entry, class_entries
from ottla.broker.request_context import RequestContext
from ottla.cluster.store import config_entities
from ottla.config.client_metrics import SELECTORS, ClientMetricsConfig
from ottla.errors import ConfigurationError, InvalidConfigError, InvalidRequestError
from ottla.security.acl import ResourceType

CLIENT_METRICS_CONFIG = 7


class ClientMetricsResource:
    """Subscriptions to client metrics, which are stored below `/config/client-metrics`."""

    ruled_as = ResourceType.CLUSTER
    lists = frozenset({"metrics", "match"})

    def path(self, name: str) -> str:
        return config_entities.entity(config_entities.CLIENT_METRICS, name)

    def names(self, context: RequestContext) -> Iterable[str]:
        return sorted(subscriptions(context))

    def entries(self, name: str, context: RequestContext) -> Iterable[Entry]:
        return class_entries(ClientMetricsConfig, self.options(name, context), CLIENT_METRICS_CONFIG)

    def options(self, name: str, context: RequestContext) -> Mapping[str, str]:
        if not name:
            raise InvalidRequestError("a client metrics subscription must have a name")
        return subscriptions(context).get(name, {})

    def check(self, name: str, options: Mapping[str, str | None], context: RequestContext) -> dict[str, str]:
        checked = {}
        for key, value in options.items():
            if key not in ClientMetricsConfig.options:
                raise InvalidRequestError(f"Unknown client metrics configuration: {key}")
            if value is None:
                raise InvalidConfigError(f"Null value not supported for: {key}")
            checked[key] = value
        try:
            config = ClientMetricsConfig(checked)
        except ConfigurationError as error:
            raise InvalidConfigError(error.message) from None
        for condition in config.match:
            _check_condition(condition)
        return checked

    async def set(self, name: str, options: Mapping[str, str], context: RequestContext) -> None:
        await context.broker.config_store.set(self.path(name), options)


def subscriptions(context: RequestContext) -> dict[str, Mapping[str, str]]:
    by_name = config_entities.of_type(context.broker.image.configs, config_entities.CLIENT_METRICS)
    return {name or "": options for name, options in by_name.items()}


def _check_condition(condition: str) -> None:
    selector, equals, pattern = condition.partition("=")
    if selector.strip() not in SELECTORS or not equals:
        raise InvalidConfigError(f"match: {condition!r} is not SELECTOR=PATTERN; selectors: {', '.join(SELECTORS)}")
    try:
        re.compile(pattern.strip())
    except re.error as error:
        raise InvalidConfigError(f"match: {pattern!r} is not a regular expression: {error}") from None
