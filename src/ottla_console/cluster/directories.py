"""The log directories of brokers: disk space, sizes, and replicas that are being moved."""

from __future__ import annotations

from typing import NamedTuple

from ottla.aio import KafkaAdminClient
from ottla.client.admin.driver import Errors
from ottla_console.web.texts import NONE


class DirectoryRow(NamedTuple):
    """A log directory of a broker. Sizes are in bytes; those of the disk are None if the broker does not report
    them.
    """

    broker: int
    path: str
    error: str | None
    replicas: int
    nbytes: int
    moving: int
    total: int | None
    usable: int | None

    @property
    def used_percent(self) -> float | None:
        """The used percentage of the disk; None if it is unknown."""
        if not self.total or self.usable is None:
            return None
        return 100 * (self.total - self.usable) / self.total


async def directory_rows(admin: KafkaAdminClient, timeout_ms: float) -> list[DirectoryRow]:
    """Return the log directories of all brokers: first those with errors, then by used percentage of the disk, the
    highest first.
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
            directory.total_bytes if (directory.total_bytes or -1) >= 0 else None,
            directory.usable_bytes if (directory.usable_bytes or -1) >= 0 else None,
        )
        for broker, paths in described.items()
        for path, directory in paths.items()
    ]
    rows += [DirectoryRow(broker, NONE, str(error), 0, 0, 0, None, None) for broker, error in failed.items()]
    return sorted(rows, key=lambda row: (row.error is None, -(row.used_percent or 0), row.broker, row.path))
