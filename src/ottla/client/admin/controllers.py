"""Metadata of Kafka's controllers, for an admin client that speaks with them (bootstrap.controllers, KIP-919)."""

from __future__ import annotations

from ottla.client.core.connections import Connections
from ottla.config.admin import CONTROLLERS
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker


class Controllers:
    """Answers as brokers would: with controllers in their place, and no topics."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def ask_any(self, request: MetadataRequest) -> MetadataResponse:
        """The controllers, as one of them tells them."""
        response = await self._connections.ask_any(DescribeClusterRequest(endpoint_type=CONTROLLERS))
        return MetadataResponse(
            error_code=response.error_code,
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            brokers=[
                MetadataResponseBroker(node_id=b.broker_id, host=b.host, port=b.port, rack=b.rack)
                for b in response.brokers
            ],
        )
