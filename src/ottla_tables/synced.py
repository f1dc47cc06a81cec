"""Syncing of local files of tables to disk."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ottla.storage.files import sync_directory, sync_file


class SyncedStream:
    """A stream to a new local file, which is on disk after `close`. Arrow's own stream does not wait for the disk."""

    def __init__(self, stream: Any, path: Path) -> None:
        self._stream = stream
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the stream, and wait until the file is on disk."""
        self._stream.close()
        sync(self._path)


def sync(path: Path) -> None:
    """Wait until a file and its name are on disk. Its directory and the directories of its partition may be new, so
    their names are synced as well, unless the process may not open the directory that contains them.
    """
    sync_file(path)
    directory = path.parent
    sync_directory(directory)
    with contextlib.suppress(PermissionError):  # the directory of all tables may belong to another user
        while "=" in directory.name:  # column=value: one for each partition column
            directory = directory.parent
            sync_directory(directory)
        sync_directory(directory.parent)
