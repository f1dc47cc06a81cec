"""The flows of a properties file in one process: Kafka's `MirrorMaker`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import AsyncExitStack

from ottla.mirror.clusters import Cluster
from ottla.mirror.flow_config import MirrorProperties
from ottla.mirror.flow_mirror import FlowMirror


class MirrorMaker:
    """Runs the flows to some targets (default: to all). Not thread-safe: event loop only.

    Raises ConfigurationError if the properties are invalid, a target is unknown, or none of the flows is enabled.
    """

    def __init__(self, properties: MirrorProperties, targets: Collection[str] = ()) -> None:
        flows = properties.flows(targets)
        aliases = {alias for flow in flows for alias in flow.name}
        self._clusters = {alias: Cluster(alias, properties) for alias in aliases}
        self.flows = [
            FlowMirror(flow, properties, self._clusters[flow.name.source], self._clusters[flow.name.target])
            for flow in flows
        ]

    async def run(self) -> None:
        """Mirror until `stop`. If a flow fails, stop the other flows like `stop`, and raise its error."""
        failures: list[Exception] = []
        async with AsyncExitStack() as clients:
            for cluster in self._clusters.values():
                await clients.enter_async_context(cluster)
            async with asyncio.TaskGroup() as tasks:
                for flow in self.flows:
                    tasks.create_task(self._run(flow, failures))
        if failures:
            raise _first(failures[0]) from None

    def stop(self) -> None:
        """Make `run` return after the open transactions are committed."""
        for flow in self.flows:
            flow.stop()

    async def _run(self, flow: FlowMirror, failures: list[Exception]) -> None:
        try:
            await flow.until_stopped(flow.prepare())
            await flow.run()
        except Exception as error:
            failures.append(error)  # not raised: the task group would cancel the other flows, which commit first
            self.stop()


def _first(error: Exception) -> Exception:
    return _first(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error
