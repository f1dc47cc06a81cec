"""`partition.metadata`: the id of the topic that a log belongs to."""

from __future__ import annotations

import logging
import re
from collections import deque
from concurrent.futures import Executor
from pathlib import Path
from threading import Lock
from typing import Final

from ottla.errors import KafkaStorageError
from ottla.storage.files import UNWRITTEN, replace_file, sync_directory, sync_file

log: Final = logging.getLogger("ottla.storage")

FILE_NAME = "partition.metadata"
TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")
"""The text format of a topic id: 16 bytes in URL-safe base64 without padding."""


def read_topic_id(directory: Path) -> str | None:
    """Return the topic id in Kafka's text form; None if the file does not exist, or is empty or zero-filled because of
    a crash.

    Raises KafkaStorageError if the content is damaged, OSError if the file cannot be read.
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
    """Write the topic id, without an fsync: see `TopicIdSync`."""
    replace_file(directory / FILE_NAME, f"version: 0\ntopic_id: {topic_id}\n".encode(), sync=False)


class TopicIdSync:
    """Waits in a worker thread until the topic ids of new logs are on disk, so that the creation of many logs at once
    does not have to wait for them.

    If a loss of power undoes the deletion of a topic, the id shows that its logs do not belong to a new topic of the
    same name.
    """

    def __init__(self, workers: Executor) -> None:
        self._workers = workers
        self._lock = Lock()
        self._pending: deque[Path] = deque()
        self._is_running = False

    def add(self, directory: Path) -> None:
        """Have a worker thread sync the topic id of the log in `directory`."""
        with self._lock:
            self._pending.append(directory)
            if self._is_running:
                return
            self._is_running = True
        self._workers.submit(self._run)

    def close(self) -> None:
        """Drop the pending syncs. Called when the log directory is closed."""
        with self._lock:
            self._pending.clear()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._pending:
                    self._is_running = False
                    return
                directory = self._pending.popleft()
            try:
                sync_file(directory / FILE_NAME)
                sync_directory(directory)
                sync_directory(directory.parent)
            except FileNotFoundError:
                continue  # the topic was deleted
            except OSError as error:
                log.warning(
                    "Cannot flush %s, so the topic id in it may be lost in a power failure: %s",
                    directory / FILE_NAME,
                    error.strerror or error,
                )
