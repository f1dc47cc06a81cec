"""AlterConfigs as tests send it."""

from tests.unit.broker.asking import Asker

from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND = 0, 1, 2


async def alter(client: Asker, kind: int, name: str, option: str, value: str | None, operation: int = SET) -> int:
    one = AlterableConfig(name=option, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[one])
    return (await client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)).responses[0].error_code
