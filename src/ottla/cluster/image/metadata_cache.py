"""What this broker knows of the cluster: one image after the other, and who hears of each change.

On the broker that is the controller it is the controller's own truth; the others follow what the controller tells them.
Invariant: listeners hear of all changes, in order, one after the other. Loop thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ottla.cluster.image.cluster_image import ClusterImage

log = logging.getLogger("ottla.cluster")

ImageListener = Callable[[ClusterImage, ClusterImage], Awaitable[None]]
"""Told of every new image, with the one before it, in order."""


class MetadataCache:
    """The image of now."""

    def __init__(self, image: ClusterImage | None = None) -> None:
        self.image = image or ClusterImage(cluster_id="")
        self.number = 0
        """How many images there were before this one."""
        self._listeners: list[ImageListener] = []
        self._lock = asyncio.Lock()
        self._changed = asyncio.Event()

    def on_change(self, listener: ImageListener) -> None:
        """Tell `listener` of every change from now on."""
        self._listeners.append(listener)

    async def update(self, decide: Callable[[ClusterImage], ClusterImage]) -> None:
        """Take what `decide` makes of the image; returns when all listeners have followed, also if nobody waits."""
        await asyncio.shield(self._update(decide))

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
                    # the change is agreed on and cannot be taken back; the other listeners have to hear of it
                    log.exception("a change of the cluster could not be followed")
            self._changed.set()
            self._changed = asyncio.Event()

    async def wait_for(self, condition: Callable[[ClusterImage], bool], seconds: float) -> bool:
        """Wait until the image meets a condition; False when the time is over."""
        try:
            async with asyncio.timeout(seconds):
                while not condition(self.image):
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True
