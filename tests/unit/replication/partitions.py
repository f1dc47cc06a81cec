"""A partition with its own event loop, and workers whose jobs a test runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from tests.unit.broker.broker_client import batch

from ottla.cluster.image.cluster_image import PartitionImage
from ottla.config.topic import LogConfig
from ottla.model import TopicPartition
from ottla.replication.partition import Partition
from ottla.storage.append_writer import AppendWriter
from ottla.storage.recovery import open_log

IMAGE = PartitionImage(leader=0, leader_epoch=0, replicas=(0,), isr=(0,))


class Held(Executor):
    """Workers whose jobs run when the test calls `run_one` or `wait`."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.jobs.append((future, lambda: fn(*args, **kwargs)))
        return future

    def run_later(self, call: Callable[[], object], /) -> None:
        self.submit(call)

    def wait(self) -> None:
        while self.jobs:
            self.run_one()

    def run_one(self, error: BaseException | None = None) -> None:
        future, job = self.jobs.pop(0)
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(job())


def with_partition(
    test: Callable[[Partition, Held], Coroutine[Any, Any, None]],
    data: Path,
    min_isr: int = 1,
    image: PartitionImage = IMAGE,
    writer: AppendWriter | None = None,
    **config: Any,
) -> None:
    async def run() -> None:
        log = open_log(data / "t-0", TopicPartition("t", 0), LogConfig(**config), writer=writer)
        held = Held()
        partition = Partition(log, image, min_isr, held)
        partition.lead(image)
        await asyncio.wait_for(test(partition, held), 10)
        log.close()

    asyncio.run(run())


def view(*values: bytes) -> memoryview:
    return memoryview(batch(*values))
