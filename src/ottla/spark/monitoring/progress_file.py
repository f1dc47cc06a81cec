"""Writes the progress of a Spark session, or of a run of a pipeline, to a file that `ottla console --progress-dir`
shows.

The file is replaced as a whole: every second while its content changes, and every five seconds otherwise. An older file
in which isClosed is false therefore belongs to a process that was killed or stopped responding. The file remains when
its process ends. When a process begins a new file, it deletes all but the newest 100 progress files.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ottla.errors import ConfigurationError

log: Final = logging.getLogger("ottla.spark")

FORMAT: Final = 1
WRITE_SECONDS: Final = 1.0
HEARTBEAT_SECONDS: Final = 5.0
MAX_FILES: Final = 100
"""Maximum number of progress files that remain in a directory when a new one is begun."""
SUFFIX: Final = ".progress.json"

QUERIES, PIPELINE = "queries", "pipeline"


class ProgressFile:
    """Writes a document to a file in a directory, and updates it in a thread from `start` to `close`.

    Args:
        directory: the directory, which is created if it does not exist. The umask determines who may read the file.
        kind: QUERIES or PIPELINE, which the content describes.
        name: the name of the application or project, which is shown.
        content: returns the fields of the document; called by `start`, by the thread and by `close`.
    """

    def __init__(self, directory: Path, kind: str, name: str, content: Callable[[], Mapping[str, Any]]) -> None:
        host = socket.gethostname()
        file_name = f"{kind}-{re.sub(r'[^A-Za-z0-9.-]', '_', name)[:60]}-{uuid.uuid4().hex[:12]}{SUFFIX}"
        self.path: Path = directory / file_name
        self._head = {"format": FORMAT, "kind": kind, "name": name, "host": host, "pid": os.getpid()}
        self._started_ms = _now_ms()
        self._content = content
        self._written: Mapping[str, Any] | None = None
        self._written_at = 0.0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ottla-progress", daemon=True)

    def start(self) -> ProgressFile:
        """Write the file, and start the thread. Raises ConfigurationError if the directory cannot be written to."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._write(is_closed=False)
        except OSError as error:
            raise ConfigurationError(f"the progress directory {self.path.parent} cannot be written: {error}") from error
        _delete_old(self.path.parent)
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop the thread, and write the file a last time, with isClosed set to true. May be called repeatedly."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._thread.join()
        self._try_to_write(is_closed=True)

    def _run(self) -> None:
        while not self._closing.wait(WRITE_SECONDS):
            self._try_to_write(is_closed=False)

    def _try_to_write(self, *, is_closed: bool) -> None:
        try:
            self._write(is_closed=is_closed)
        except OSError as error:  # such as a full disk: the queries go on
            log.debug(
                "Cannot write the progress file %s; the console shows outdated progress until a write succeeds: %s",
                self.path,
                error,
            )

    def _write(self, *, is_closed: bool) -> None:
        content = self._content()
        is_due = time.monotonic() - self._written_at >= HEARTBEAT_SECONDS
        if content == self._written and not is_due and not is_closed:
            return
        times = {"startedMs": self._started_ms, "updatedMs": _now_ms(), "isClosed": is_closed}
        draft = self.path.with_name(f".{self.path.name}")
        draft.write_text(json.dumps({**self._head, **times, **content}))
        draft.replace(self.path)
        self._written, self._written_at = content, time.monotonic()


def progress_files(directory: Path) -> list[Path]:
    """Return the progress files in a directory, the newest first. Return an empty list if the directory cannot be
    read.
    """
    by_age: list[tuple[float, Path]] = []
    with contextlib.suppress(OSError):
        for path in directory.iterdir():
            if path.name.endswith(SUFFIX) and not path.name.startswith("."):
                with contextlib.suppress(FileNotFoundError):
                    by_age.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(by_age, reverse=True)]


def _delete_old(directory: Path) -> None:
    for path in progress_files(directory)[MAX_FILES:]:
        path.unlink(missing_ok=True)


def _now_ms() -> int:
    return int(time.time() * 1000)
