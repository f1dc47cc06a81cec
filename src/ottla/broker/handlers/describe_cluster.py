"""DescribeCluster: the brokers and the controller."""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.broker.security.authorized_operations import NOT_REQUESTED, on_cluster
from ottla.errors import MismatchedEndpointTypeError, UnsupportedEndpointTypeError
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        raise MismatchedEndpointTypeError("this is an endpoint of brokers, not of controllers")
    if request.endpoint_type != BROKERS:
        raise UnsupportedEndpointTypeError
    image = context.broker.image
    nodes = [broker.node(context.connection.listener.name) for broker in image.brokers.values()]
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        cluster_authorized_operations=on_cluster(context)
        if request.include_cluster_authorized_operations
        else NOT_REQUESTED,
        brokers=[DescribeClusterBroker(broker_id=n.id, host=n.host, port=n.port, rack=n.rack) for n in nodes],
    )
