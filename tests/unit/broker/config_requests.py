"""IncrementalAlterConfigs of one config."""

from tests.unit.broker.broker_client import BrokerClient

from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND = 0, 1, 2


async def alter(client: BrokerClient, kind: int, name: str, key: str, value: str | None, operation: int = SET) -> int:
    config = AlterableConfig(name=key, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    return (await client.request(IncrementalAlterConfigsRequest(resources=[resource]), 1)).responses[0].error_code
