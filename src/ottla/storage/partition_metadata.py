"""`partition.metadata`: the id of the topic that a log belongs to."""

from __future__ import annotations

import re
from pathlib import Path

from ottla.errors import KafkaStorageError
from ottla.storage.files import UNWRITTEN, replace_file

FILE_NAME = "partition.metadata"
TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")
"""The text format of a topic id: 16 bytes in URL-safe base64."""


def read_topic_id(directory: Path) -> str | None:
    """Return the topic id in Kafka's text form; None if the file does not exist, or is empty or zero-filled because of
    a crash.

    Raises KafkaStorageError if the content is damaged.
    """
    path = directory / FILE_NAME
    try:
        lines = path.read_text(encoding="utf-8").strip(UNWRITTEN).splitlines()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise KafkaStorageError(f"{path} is damaged: {error}") from None
    if not lines:
        return None
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    topic_id = fields.get("topic_id", "").strip()
    if fields.get("version") != "0" or not TOPIC_ID.fullmatch(topic_id):
        raise KafkaStorageError(f"{path} has no topic id")
    return topic_id


def write_topic_id(directory: Path, topic_id: str) -> None:
    """Write the topic id.

    There is no fsync, because many partitions may be created at once, and the metadata store also has the id.
    """
    replace_file(directory / FILE_NAME, f"version: 0\ntopic_id: {topic_id}\n".encode(), sync=False)
