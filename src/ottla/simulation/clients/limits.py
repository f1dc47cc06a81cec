"""A workload that changes ACLs and quotas: at the end, all brokers must have the same ones."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from ottla import aio
from ottla.client.admin.quotas import ClientQuotaAlteration
from ottla.cluster.store import config_entities
from ottla.errors import KafkaError
from ottla.model import ACLOperation
from ottla.security.acl import ACL, ACLFilter, ACLPermissionType, ResourcePattern, ResourceType
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.history import History
from ottla.simulation.workloads import RETRY_SECONDS, Workload

LIMITED: Final = "limited"
PAUSE_SECONDS: Final = 3.0
SETTLE_SECONDS: Final = 60.0
"""Time in seconds within which all brokers must have the same ACLs and quotas once the cluster has recovered."""
TOPICS: Final = 3
QUOTAS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
CONFIGS: Final[Mapping[str, Any]] = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Broker configs that enable ACLs, but allow everything to the clients of a simulation, which are anonymous."""


class LimitedClients(Workload):
    """Changes the ACLs of users and the quotas of client ids, until the faults have ended. No client of the run has one
    of these users or client ids.
    """

    def __init__(self, cluster: SimulatedCluster, history: History) -> None:
        super().__init__(cluster.world, LIMITED, cluster.bootstrap_servers, history)
        self._cluster = cluster
        self._admin = aio.KafkaAdminClient(**self.options)

    async def run(self) -> None:
        await self._admin.start()
        while not self.is_stopping:
            if not self.history.calm.is_set():
                try:
                    await self._change()
                except KafkaError as error:
                    self.world.note(self.name, f"change failed: {error}")
            await self.rest(PAUSE_SECONDS)
        self.history.violations += [f"{self.name}: {text}" for text in await self._check()]
        await self._admin.close()

    async def _change(self) -> None:
        match self.rng.randrange(3):
            case 0:
                quota = {self.rng.choice(QUOTAS): self.rng.choice([None, float(self.rng.randrange(1, 10**6))])}
                await self._admin.alter_client_quotas(
                    [ClientQuotaAlteration({"client-id": self._client()}, quota)], 8000
                )
            case 1:
                await self._admin.create_acls([self._acl()], 8000)
            case 2:
                await self._admin.delete_acls([self._acl()], 8000)

    def _client(self) -> str:
        return f"client-{self.rng.randrange(TOPICS)}"

    def _acl(self) -> ACL:
        pattern = ResourcePattern(ResourceType.TOPIC, f"limited-{self.rng.randrange(TOPICS)}")
        principal = f"User:{self.rng.choice('abc')}"
        return ACL(principal, "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)

    async def _check(self) -> list[str]:
        for _ in range(int(SETTLE_SECONDS / RETRY_SECONDS)):
            differences = self._differences()
            if not differences:
                return []
            await asyncio.sleep(RETRY_SECONDS)
        return differences

    def _differences(self) -> list[str]:
        limits = [self._limits_at(number) for number in range(len(self._cluster.brokers))]
        return [f"brokers have different ACLs or quotas: {limits}"] if any(one != limits[0] for one in limits) else []

    def _limits_at(self, number: int) -> tuple[list[str], dict[str, Any]] | None:
        """Return the ACLs and quotas that a broker uses; None while it does not serve clients."""
        context = self._cluster.brokers[number].context
        if context is None or context.acl_store is None:
            return None
        paths = [config_entities.quota_path({"client-id": f"client-{n}"}) for n in range(TOPICS)]
        quotas = {path: dict(context.image.configs.get(path, {})) for path in paths if path is not None}
        return list(map(str, context.acl_store.matching(ACLFilter()))), quotas
