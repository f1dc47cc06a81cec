"""Files for storage: open files that close with their last reference, slices of a file, atomic replacement, fsync, and
the errors of disks.
"""

from __future__ import annotations

import errno
import os
import sys
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from ottla import page_cache
from ottla.errors import KafkaStorageError

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Buffer


FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers that mean that the disk is full, or a quota or the maximum size of a file is reached, not that the disk
is broken: written data is intact, and there may be space later.
"""
SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Error numbers that mean that file descriptors or memory are exhausted, which does not indicate a failure of the disk.
"""

UNWRITTEN = "\0"
"""The character that fills a file after a loss of power if its new size was on disk, but not its data."""


class DiskFailedError(KafkaStorageError):
    """The disk of a log directory has failed: its data may be damaged."""


class DiskFullError(KafkaStorageError):
    """There was no space for a write. No other data is lost, and there may be space later."""


class ResourcesExhaustedError(KafkaStorageError):
    """The process or the machine is out of file descriptors or memory. The disk is not affected."""


def storage_error(doing: str, path: Path, error: OSError) -> DiskFailedError | DiskFullError | ResourcesExhaustedError:
    """Return the KafkaStorageError for an OSError in a log directory.

    Its text names the operation `doing`, the path, the reason, and what to do.
    """
    reason = "no space is left on the device" if error.errno == errno.ENOSPC else error.strerror or str(error)
    if error.errno in FULL:
        return DiskFullError(f"could not {doing} in {path}: {reason}; make room on the disk")
    if error.errno in SCARCE:
        return ResourcesExhaustedError(
            f"could not {doing} in {path}: {reason}; raise the limit of open files (ulimit -n) or of memory"
        )
    return DiskFailedError(f"could not {doing} in {path}: {reason}; check the disk, then restart the broker")


class DiskSpace(NamedTuple):
    """The total size of a log directory's file system and its free space, in bytes."""

    total: int
    free: int


def disk_space(path: str | Path) -> DiskSpace:
    """Return the space of the file system of a directory. Raises OSError."""
    stat = os.statvfs(path)
    return DiskSpace(stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize)


class LogFile:
    """An open file, which is read and written at given positions.

    It is closed when its last reference is dropped, so a slice that is being sent can be read even if its segment is
    deleted meanwhile.

    Python's reference counting is used, because a separate counter would need a lock: flushes run in other threads.
    """

    __slots__ = ("fd", "path")

    def __init__(self, path: Path, *, create: bool = False, writable: bool = True) -> None:
        self.fd = -1
        self.path = path
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        self.fd = os.open(path, flags, 0o644)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def size(self) -> int:
        """Return the current size of the file in bytes."""
        return os.fstat(self.fd).st_size

    def read(self, position: int, nbytes: int) -> bytes:
        """Return `nbytes` bytes from `position`; fewer only if the file ends before.

        Raises OSError, and NotCachedError within `page_cache.cached_only`.
        """
        data = page_cache.pread(self.fd, nbytes, position)
        if len(data) == nbytes or not data:
            return data
        parts = [data]
        missing = nbytes - len(data)
        while missing:
            more = page_cache.pread(self.fd, missing, position + nbytes - missing)
            if not more:
                break
            parts.append(more)
            missing -= len(more)
        return b"".join(parts)

    def write(self, position: int, data: Buffer) -> None:
        """Write all of `data` at `position`. After an OSError, the file may contain a part of it."""
        view = memoryview(data).cast("B")
        written = os.pwrite(self.fd, view, position)
        while written < len(view):
            more = os.pwrite(self.fd, view[written:], position + written)
            if more == 0:
                raise OSError(f"{self.path}: nothing more could be written")
            written += more

    def truncate(self, size: int) -> None:
        """Shorten or extend the file."""
        os.ftruncate(self.fd, size)

    def reserve(self, nbytes: int) -> None:
        """Extend the file to `nbytes` with zeros. Allocate the blocks, except on macOS and file systems that cannot."""
        if nbytes <= 0:
            return
        if sys.platform != "darwin":
            try:
                os.posix_fallocate(self.fd, 0, nbytes)
                return
            except OSError as error:  # glibc writes the zeros where the file system cannot allocate, musl does not
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                    raise
        os.ftruncate(self.fd, nbytes)

    def sync(self) -> None:
        """Wait until the file is on disk."""
        os.fsync(self.fd)


class FileSlice:
    """A range of a file with whole batches, to be sent with sendfile or read. Its length never changes.

    The file stays readable until `release`, even if its segment is deleted meanwhile.
    """

    __slots__ = ("_file", "is_cut", "nbytes", "position")

    def __init__(self, file: LogFile | None, position: int, nbytes: int, *, is_cut: bool = False) -> None:
        assert nbytes == 0 or file is not None
        self._file = file
        self.position = position
        self.nbytes = nbytes
        self.is_cut = is_cut
        """Whether a limit of bytes has left out batches that follow."""

    def fileno(self) -> int:
        """Return the file descriptor to read from at `position`.

        Raises ValueError if the slice is released or empty.
        """
        if self._file is None:
            raise ValueError("the slice is released or empty")
        return self._file.fd

    def read(self) -> bytes:
        """Return the bytes of the slice; b"" if it is released.

        Raises the errors of `LogFile.read`, and KafkaStorageError if the file has become shorter.
        """
        if self._file is None:
            return b""
        data = self._file.read(self.position, self.nbytes)
        if len(data) != self.nbytes:
            raise KafkaStorageError(f"{self._file.path} ends within a slice of it")
        return data

    def release(self) -> None:
        """Drop the reference to the file."""
        self._file = None

    def __enter__(self) -> FileSlice:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def replace_file(path: Path, content: bytes, *, sync: bool = True) -> None:
    """Write `content` to `path` atomically: after a crash of the process, there is either the old or the new file.

    `sync`: wait until it is on disk. Otherwise, the file may be empty or zero-filled after a power failure.
    """
    temporary = path.with_name(path.name + ".tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            if sync:
                os.fsync(fd)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    if sync:
        sync_directory(path.parent)


def sync_file(path: Path) -> None:
    """Wait until a file is on disk. Return at once if it was deleted."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class SyncedFile:
    """A file that seldom changes: `sync` waits until it is on disk, and calls fsync only if it has changed.

    Even for an unchanged file, fsync makes the disk write its cache, so a flush would take several times as long.
    """

    __slots__ = ("_lock", "_path", "is_changed")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        """Held during an fsync, so that a concurrent `sync` waits for it, too."""
        self.is_changed = True
        """Whether the file may have changed since the last fsync. True at first, because that is unknown."""

    def changed(self) -> None:
        """Record that the file was written."""
        self.is_changed = True

    def sync(self) -> None:
        """Wait until the file is on disk. Callable from a worker thread.

        A change during the call may not be on disk on return; the next call waits for it.
        """
        with self._lock:
            if not self.is_changed:
                return
            self.is_changed = False
            try:
                sync_file(self._path)
            except BaseException:
                self.is_changed = True
                raise


def sync_directory(path: Path) -> None:
    """Wait until renamed, created and deleted names in a directory are on disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
