"""Reads the logs of stopped brokers, so that the batches of their replicas can be compared up to the lowest high
watermark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from ottla.model import TopicPartition
from ottla.records.batch import split
from ottla.storage.checkpoints import HIGH_WATERMARKS, read_offsets


class Batch(NamedTuple):
    """A batch as it is stored on disk: its offsets, and a digest of its bytes."""

    base_offset: int
    next_offset: int
    digest: str


class Replica(NamedTuple):
    """A replica's high watermark from the broker's checkpoint, and the batches below this offset."""

    high_watermark: int
    batches: list[Batch]


def batches(folder: Path) -> Iterator[Batch]:
    """Yield all batches of the log in a partition's directory, in order."""
    for segment in sorted(folder.glob("*.log")):
        content = segment.read_bytes()
        for header, start, end in split(content):
            yield Batch(header.base_offset, header.next_offset, sha256(content[start:end]).hexdigest()[:16])


def read_replicas(directories: Sequence[Path]) -> dict[TopicPartition, list[Replica]]:
    """Return the replicas of each partition, in the order of the log directories in `directories`. Replicas without a
    high watermark checkpoint or a directory are left out.
    """
    result: dict[TopicPartition, list[Replica]] = {}
    for data in directories:
        for tp, high_watermark in read_offsets(data / HIGH_WATERMARKS).items():
            folder = data / f"{tp.topic}-{tp.partition}"
            if not folder.is_dir():
                continue  # deleted, or moved to another log directory, since the checkpoint
            below = [batch for batch in batches(folder) if batch.next_offset <= high_watermark]
            result.setdefault(tp, []).append(Replica(high_watermark, below))
    return result


def smallest(replicas: Mapping[TopicPartition, Sequence[Replica]]) -> dict[TopicPartition, int]:
    """Return the lowest high watermark of the replicas of each partition."""
    return {tp: min(replica.high_watermark for replica in of) for tp, of in replicas.items()}
