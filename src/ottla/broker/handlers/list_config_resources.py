"""ListConfigResources: the names of resources that have options."""

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
    """Those of the types asked for; of all types when none is named."""
    types = request.resource_types or list(RESOURCES) if context.version >= 1 else [CLIENT_METRICS]
    if not RESOURCES.keys() >= set(types):
        raise UnsupportedVersionError(f"resource types {sorted(set(types) - RESOURCES.keys())} are not known")
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in sorted(set(types))
            for name in RESOURCES[kind].names(context)
        ]
    )
