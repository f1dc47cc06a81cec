"""ApiVersions: connections that reach another cluster or broker than the client expects."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.broker.broker_client import BrokerClient, with_broker

from ottla.errors import RebootstrapRequiredError
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest


@pytest.mark.parametrize("version", [4, 5])
def test_client_that_expects_another_cluster_or_broker_has_to_bootstrap_again(version: int, tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        metadata = await client.request(MetadataRequest(topics=[]), 12)
        (broker,) = metadata.brokers

        async def error_code(cluster_id: str | None, node_id: int) -> int:
            request = ApiVersionsRequest(
                client_software_name="a", client_software_version="1", cluster_id=cluster_id, node_id=node_id
            )
            response = await client.request(request, version)
            assert response.api_keys or response.error_code
            return int(response.error_code)

        misrouted = RebootstrapRequiredError.code if version >= 5 else 0
        assert await error_code(None, -1) == 0
        assert await error_code(metadata.cluster_id, broker.node_id) == 0
        assert await error_code("another", -1) == misrouted
        assert await error_code(None, broker.node_id + 1) == misrouted
        assert await error_code(None, -1) == 0, "the connection stays usable"

    with_broker(test, tmp_path)
