"""Kafka's checkpoint files: a line with the version, a line with the number of entries, and one line per entry.

A file is always replaced as a whole.

A log directory has four, each with at most one offset per partition: recovery points, high watermarks, log start
offsets, and the cleaner's offsets. The files with leader epochs in the directories of logs have the same format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ottla.errors import KafkaStorageError
from ottla.model import TopicPartition
from ottla.storage.files import UNWRITTEN, replace_file

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
TIERED_LEADER_EPOCHS = "tiered-leader-epoch-checkpoint"
"""The file with the leader epochs of records that are only in remote storage. It is written with fsync.

`leader-epoch-checkpoint` has these epochs, too, but may be lost in a power failure. It is then rebuilt from the batches
on this broker, which do not include tiered records. Apache Kafka ignores the file.
"""

COMPACTED_BELOW = TopicPartition("#compacted-below", 0)
"""A marker among the recovery points, in place of a partition: no log was compacted above its recovery point.

Apache Kafka and earlier versions of Ottla ignore the marker, and do not write it.
"""

VERSION = 0


def read_lines(path: Path, fields: int) -> list[list[str]]:
    """Return the entries of a checkpoint file, each of `fields` words; none if the file does not exist, or is empty or
    zero-filled because of a crash.

    Raises KafkaStorageError if the file is damaged or cannot be read.
    """
    try:
        content = path.read_text(encoding="utf-8").strip(UNWRITTEN)
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise KafkaStorageError(f"{path} cannot be read: {error}") from error
    lines = content.splitlines()
    if not lines:
        return []
    try:
        version, count = int(lines[0]), int(lines[1])
        entries = [line.split() for line in lines[2 : 2 + count]]
        # the last line may have been cut off within a number
        sound = version == VERSION and len(entries) == count == len(lines) - 2 and content.endswith("\n")
    except (ValueError, IndexError):
        sound, entries = False, []
    if not sound or any(len(entry) != fields for entry in entries):
        raise KafkaStorageError(f"{path} is not a checkpoint of version {VERSION}, or it is damaged")
    return entries


def write_lines(path: Path, entries: Iterable[str], *, sync: bool = True) -> None:
    """Replace a checkpoint file. `sync`: wait until it is on disk. Raises OSError."""
    lines = list(entries)
    replace_file(path, "\n".join([str(VERSION), str(len(lines)), *lines, ""]).encode(), sync=sync)


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Return the offsets of a checkpoint in a log directory by partition; none if the file does not exist or is empty.

    Raises KafkaStorageError if the file is damaged or cannot be read.
    """
    try:
        return {TopicPartition(t, int(p)): int(offset) for t, p, offset in read_lines(path, 3)}
    except ValueError as error:
        raise KafkaStorageError(f"{path} is damaged: {error}") from None


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a checkpoint in a log directory, and wait until it is on disk. Raises OSError."""
    write_lines(path, (f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()))
