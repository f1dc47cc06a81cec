"""`ottla mirror-maker` between two clusters, in a thread of the test."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

from ottla.mirror.flow_config import MirrorProperties
from ottla.mirror.mirror_maker import MirrorMaker

SECONDS = 30.0
QUICK = {
    "replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "offset.storage.partitions": "1",
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "sync.topic.acls.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
}
"""One replica of each topic, and all intervals as short as possible."""


def mm2_properties(a: str, b: str, **configs: str) -> dict[str, str]:
    """Return the properties of a flow from A to B; `_` and `__` stand for `.` and `->` in names of configs."""
    own = {name.replace("__", "->").replace("_", "."): value for name, value in configs.items()}
    clusters = {"clusters": "A, B", "A.bootstrap.servers": a, "B.bootstrap.servers": b, "A->B.enabled": "true"}
    return {**clusters, **QUICK, **own}


class MirroringThread(threading.Thread):
    """A thread that runs a mirror maker; `error` is the exception that ended it."""

    def __init__(self, properties: dict[str, str]) -> None:
        super().__init__(name="mirror-maker", daemon=True)
        self._properties = properties
        self._ready = threading.Event()
        self.error: BaseException | None = None
        self.maker: MirrorMaker

    def run(self) -> None:
        try:
            asyncio.run(self._mirror())
        except BaseException as error:
            self.error = error
        finally:
            self._ready.set()

    async def _mirror(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.maker = MirrorMaker(MirrorProperties(self._properties))
        self._ready.set()
        await self.maker.run()

    def begin(self) -> None:
        """Start, and wait until `maker` is set."""
        self.start()
        self._ready.wait()

    def stop(self) -> None:
        """Stop the mirror maker cleanly. Raise the exception that ended it before, if any."""
        self._ready.wait()
        if self.is_alive():
            self._loop.call_soon_threadsafe(self.maker.stop)
        self.join(SECONDS)
        assert not self.is_alive(), "the mirror maker does not stop"
        if self.error is not None:
            raise self.error


@contextlib.contextmanager
def mirroring(properties: dict[str, str]) -> Iterator[MirroringThread]:
    """Mirror topics until the end of the block."""
    thread = MirroringThread(properties)
    thread.begin()
    try:
        yield thread
    finally:
        thread.stop()
