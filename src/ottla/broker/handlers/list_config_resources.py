"""ListConfigResources: the names of config resources."""

from __future__ import annotations

from ottla.broker.config.resources.table import CLIENT_METRICS, RESOURCES
from ottla.broker.request_context import RequestContext
from ottla.errors import UnsupportedVersionError
from ottla.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


def handle(request: ListConfigResourcesRequest, context: RequestContext) -> ListConfigResourcesResponse:
    """Return the resources of the requested types, or of all types. Version 0 lists only client metrics."""
    types = request.resource_types or list(RESOURCES) if context.version >= 1 else [CLIENT_METRICS]
    if not RESOURCES.keys() >= set(types):
        raise UnsupportedVersionError(f"unknown resource types {sorted(set(types) - RESOURCES.keys())}")
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in sorted(set(types))
            for name in RESOURCES[kind].names(context)
        ]
    )
