"""The table of config resource types, by the numbers of the protocol."""

from __future__ import annotations

from ottla.broker.config.resources.broker import BrokerResource
from ottla.broker.config.resources.broker_logger import BrokerLoggerResource
from ottla.broker.config.resources.client_metrics import ClientMetricsResource
from ottla.broker.config.resources.group import GroupResource
from ottla.broker.config.resources.resource import Resource
from ottla.broker.config.resources.topic import TopicResource
from ottla.broker.request_context import RequestContext
from ottla.errors import InvalidRequestError
from ottla.model import ACLOperation
from ottla.security.acl import CLUSTER_NAME, ResourceType

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

RESOURCES: dict[int, Resource] = {
    TOPIC: TopicResource(),
    BROKER: BrokerResource(),
    BROKER_LOGGER: BrokerLoggerResource(),
    CLIENT_METRICS: ClientMetricsResource(),
    GROUP: GroupResource(),
}
NAMES = {
    TOPIC: "topic",
    BROKER: "broker",
    BROKER_LOGGER: "logger of broker",
    CLIENT_METRICS: "subscription",
    GROUP: "group",
}
"""The names of resource types in log lines."""


def resource(kind: int) -> Resource:
    """Return the resource type with this number. Raises InvalidRequestError if there is none."""
    resource_type = RESOURCES.get(kind)
    if resource_type is None:
        raise InvalidRequestError(f"resource type {kind} has no configs")
    return resource_type


def permitted(kind: int, name: str, operation: ACLOperation, context: RequestContext) -> Resource:
    """Return the resource type with this number.

    Raises InvalidRequestError if there is none, and an authorization error if the client is not authorized for the
    operation on the resource `name`.
    """
    config_resource = resource(kind)
    context.require(
        operation, config_resource.ruled_as, CLUSTER_NAME if config_resource.ruled_as is ResourceType.CLUSTER else name
    )
    return config_resource
