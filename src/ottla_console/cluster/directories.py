"""The log directories of brokers: disk space, sizes, and replicas that are being moved."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.aio import KafkaAdminClient
from ottla.client.admin.driver import Errors
from ottla.model import TopicPartition
from ottla_console.web.texts import NONE

LARGEST: Final = 3
"""Maximum number of topics to show for a directory: those with the most bytes."""


class DirectoryRow(NamedTuple):
    """A log directory of a broker, or the error of a broker that could not be queried. Sizes are in bytes; those of the
    disk are None if the broker does not report them.
    """

    broker: int
    path: str
    error: str | None
    replicas: int
    nbytes: int
    moving: int
    total: int | None
    usable: int | None
    largest: tuple[tuple[str, int], ...] = ()
    """The topics with the most bytes in the directory, and their sizes."""

    @property
    def used_percent(self) -> float | None:
        """The used percentage of the disk; None if it is unknown."""
        if not self.total or self.usable is None:
            return None
        return 100 * (self.total - self.usable) / self.total


def largest_topics(sizes: Mapping[TopicPartition, int]) -> tuple[tuple[str, int], ...]:
    """Return the topics with the most bytes, the largest first, from the sizes of replicas."""
    by_topic: dict[str, int] = defaultdict(int)
    for tp, size in sizes.items():
        by_topic[tp.topic] += size
    return tuple(heapq.nsmallest(LARGEST, by_topic.items(), key=lambda item: (-item[1], item[0])))


def _size(nbytes: int | None) -> int | None:
    """Return a size of a response; None for the -1 of brokers that do not report it. A full disk has 0 bytes left."""
    return None if nbytes is None or nbytes < 0 else nbytes


async def directory_rows(admin: KafkaAdminClient, timeout_ms: float) -> list[DirectoryRow]:
    """Return the log directories of all brokers: first those with errors, then by used percentage of the disk, the
    highest first. A broker that cannot be queried has one row with its error.
    """
    failed: Errors = {}
    described = await admin.describe_log_dirs(None, None, timeout_ms, errors=failed)
    rows = [
        DirectoryRow(
            broker,
            path,
            None if directory.error is None else type(directory.error).__name__,
            len(directory.replicas),
            sum(replica.size for replica in directory.replicas.values()),
            sum(replica.is_future for replica in directory.replicas.values()),
            _size(directory.total_bytes),
            _size(directory.usable_bytes),
            largest_topics({tp: replica.size for tp, replica in directory.replicas.items()}),
        )
        for broker, paths in described.items()
        for path, directory in paths.items()
    ]
    rows += [DirectoryRow(broker, NONE, str(error), 0, 0, 0, None, None) for broker, error in failed.items()]
    return sorted(rows, key=lambda row: (row.error is None, -(row.used_percent or 0), row.broker, row.path))
