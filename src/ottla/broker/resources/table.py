"""Every type of config resource: one row each. The numbers are those of DescribeConfigs."""

from __future__ import annotations

from ottla.broker.resources.broker import BrokerResource
from ottla.broker.resources.broker_logger import BrokerLoggerResource
from ottla.broker.resources.client_metrics import ClientMetricsResource
from ottla.broker.resources.group import GroupResource
from ottla.broker.resources.resource import Resource
from ottla.broker.resources.topic import TopicResource
from ottla.errors import InvalidRequestError

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

RESOURCES: dict[int, Resource] = {
    TOPIC: TopicResource(),
    BROKER: BrokerResource(),
    BROKER_LOGGER: BrokerLoggerResource(),
    CLIENT_METRICS: ClientMetricsResource(),
    GROUP: GroupResource(),
}


def resource(kind: int) -> Resource:
    """The type of a number; InvalidRequestError where there is none."""
    found = RESOURCES.get(kind)
    if found is None:
        raise InvalidRequestError(f"resource type {kind} has no options")
    return found
