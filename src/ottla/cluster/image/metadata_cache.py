"""The current image of the cluster's metadata, and the listeners of its changes. Kafka's `MetadataCache`.

In the controller, the image changes with each change it makes; other brokers apply the controller's requests.
Invariant: listeners are called with all changes in order, one after the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ottla.cluster.image.cluster_image import ClusterImage
from ottla.futures import shielded

log = logging.getLogger("ottla.cluster")

ImageListener = Callable[[ClusterImage, ClusterImage], Awaitable[None]]
"""Called with the previous and the new image, for each change in order."""


class MetadataCache:
    """The current image. Not thread-safe: event loop only."""

    def __init__(self, image: ClusterImage | None = None) -> None:
        self.image = image or ClusterImage(cluster_id="")
        self.number = 0
        """The number of changes so far, which identifies the current image."""
        self.configs_lock = asyncio.Lock()
        """Held while changes of dynamic configs are applied or made, so that they do not overtake each other, and no
        change is based on a value that has been replaced.
        """
        self._listeners: list[ImageListener] = []
        self._lock = asyncio.Lock()
        self._changed = asyncio.Event()

    def on_change(self, listener: ImageListener) -> None:
        """Call `listener` with every change from now on."""
        self._listeners.append(listener)

    async def update(self, decide: Callable[[ClusterImage], ClusterImage]) -> None:
        """Replace the image with the one that `decide` returns for the current one, unless it is the same object.

        Return when all listeners have handled it. Cancelling the caller does not stop the update. Raises the error of
        `decide`.
        """
        await shielded(self._update(decide))

    async def _update(self, decide: Callable[[ClusterImage], ClusterImage]) -> None:
        async with self._lock:
            before = self.image
            after = decide(before)
            if after is before:
                return
            self.image = after
            self.number += 1
            for listener in self._listeners:
                try:
                    await listener(before, after)
                except Exception:
                    # the change cannot be undone, so the other listeners must get it
                    log.exception(
                        "Unexpected error in metadata listener %s, which may not have applied a change of the metadata",
                        getattr(listener, "__qualname__", listener),
                    )
            self._changed.set()
            self._changed = asyncio.Event()

    async def wait_for(self, condition: Callable[[ClusterImage], bool], seconds: float) -> bool:
        """Wait until the image meets a condition. Return False if it does not within `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while not condition(self.image):
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True
