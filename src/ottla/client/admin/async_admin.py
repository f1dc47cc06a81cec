"""`ottla.aio.KafkaAdminClient`: `AdminCore` on the caller's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from ottla.client.admin.core import AdminCore
from ottla.config.admin import AdminConfig

if TYPE_CHECKING:
    from ottla.client.options.admin import AdminOptions


class KafkaAdminClient(AdminCore):
    """Manages a cluster: the asyncio version of the synchronous client of the same name. Bound to one event loop.

    Use `start` and `stop`, or `async with`.
    """

    def __init__(self, configs: Mapping[str, Any] | None = None, **options: Unpack[AdminOptions]) -> None:
        if configs is not None:
            super().__init__(AdminConfig.from_kafka(configs, **options))
        else:
            super().__init__(AdminConfig.from_keywords(**options))

    def __repr__(self) -> str:
        return f"<KafkaAdminClient {self.client_id}>"

    async def close(self, timeout: float | None = None) -> None:
        """Close the connections within `timeout` seconds (None: no limit), otherwise raise TimeoutError. Pending calls
        fail.
        """
        async with asyncio.timeout(timeout):
            await self.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
