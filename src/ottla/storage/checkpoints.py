"""Kafka's checkpoint files: a version line, a count line, one line per entry; replaced as a whole.

Four of them lie in a data directory and hold one offset per partition: the recovery points, the high watermarks, the
log start offsets, and how far the cleaner has come. `leader-epoch-checkpoint` in each log has the same shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ottla.errors import KafkaStorageError
from ottla.model import TopicPartition
from ottla.storage.files import replace_file

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"

VERSION = 0


def read_lines(path: Path, fields: int) -> list[list[str]]:
    """The entries of a checkpoint file, each of `fields` words; none where the file is absent.

    Raises KafkaStorageError for a file that is damaged.
    """
    try:
        content = path.read_text(encoding="utf-8")
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
        # the last line may have lost digits with its end
        sound = version == VERSION and len(entries) == count == len(lines) - 2 and content.endswith("\n")
    except (ValueError, IndexError):
        sound, entries = False, []
    if not sound or any(len(entry) != fields for entry in entries):
        raise KafkaStorageError(f"{path} is no checkpoint of version {VERSION}, or is damaged")
    return entries


def write_lines(path: Path, entries: Iterable[str], *, sync: bool = True) -> None:
    """Replace the checkpoint file."""
    lines = list(entries)
    replace_file(path, "\n".join([str(VERSION), str(len(lines)), *lines, ""]).encode(), sync=sync)


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Partition → offset of a checkpoint in a data directory."""
    try:
        return {TopicPartition(t, int(p)): int(offset) for t, p, offset in read_lines(path, 3)}
    except ValueError as error:
        raise KafkaStorageError(f"{path} is damaged: {error}") from None


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int], *, sync: bool = True) -> None:
    """Replace a checkpoint in a data directory."""
    write_lines(path, (f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()), sync=sync)
