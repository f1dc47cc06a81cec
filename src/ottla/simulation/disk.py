"""Disks: real files, usually on a file system in memory, with faults and a journal of the changes that a power loss may
undo.

When a process is killed, nothing is lost, because its writes are in the page cache. A power loss preserves everything
that was fsynced, and a part of the other changes that the seed chooses. For each file, these are its first writes; the
last of them may be torn, with zeros where the disk has the new file size but not yet the content. For file names
(created, renamed and deleted files), they are the first changes, as in a journaling file system.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PosixPath
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any, Final

from ottla.simulation.process import PROCESS, Process

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ottla.simulation.pipes import Pipes

SECTOR_BYTES: Final = 512
GRAVEYARD: Final = ".graveyard"

Fault = Callable[[str, str], None]
"""Called with the operation (`write`, `truncate`, `fsync`, `open`, `rename`) and the path; may raise OSError."""


@dataclass
class Write:
    """An unsynced change of a file's content or size, with the previous content and size in bytes."""

    position: int
    before: bytes
    size_before: int
    nbytes: int
    after: bytes = b""


@dataclass
class Name:
    """An unsynced change of a file name, with a function that undoes it."""

    undo: Callable[[], None]
    directory: str


@dataclass
class Disk:
    """The disk of one host."""

    root: Path
    rng: random.Random
    fault: Fault | None = None
    """The function that decides whether an operation fails; None: no operation fails."""
    writes: dict[int, list[Write]] = field(default_factory=dict)
    """Changes that are not fsynced, by inode."""
    paths: dict[int, str] = field(default_factory=dict)
    names: list[Name] = field(default_factory=list)
    buried: int = 0

    def __post_init__(self) -> None:
        (self.root / GRAVEYARD).mkdir(parents=True, exist_ok=True)

    def check(self, operation: str, path: object) -> None:
        """Raise OSError if `fault` makes the operation fail."""
        if self.fault is not None:
            self.fault(operation, str(path))

    def lose_power(self) -> None:
        """Undo a part of the unsynced changes, which the seed chooses. No process may be using the disk."""
        retained = self.rng.randint(0, len(self.names))
        for name in reversed(self.names[retained:]):
            name.undo()
        for inode, writes in self.writes.items():
            self._undo_writes(self.paths[inode], inode, writes)
        self.names.clear()
        self.writes.clear()
        self.paths.clear()

    def _undo_writes(self, path: str, inode: int, writes: list[Write]) -> None:
        try:
            fd = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return
        try:
            if os.fstat(fd).st_ino != inode:
                return
            retained = self.rng.randint(0, len(writes))
            for write in reversed(writes[retained:]):
                os.pwrite(fd, write.before, write.position)
                os.ftruncate(fd, write.size_before)
            if retained < len(writes) and writes[retained].after and self.rng.random() < 0.5:
                torn = writes[retained]  # its first sectors have reached the disk, and perhaps the new size of the file
                sectors = self.rng.randint(0, torn.nbytes // SECTOR_BYTES)
                os.pwrite(fd, torn.after[: sectors * SECTOR_BYTES], torn.position)
                if self.rng.random() < 0.5:
                    os.ftruncate(fd, max(torn.size_before, torn.position + torn.nbytes))
        finally:
            os.close(fd)

    # Journal

    def before_write(self, fd: int, path: str, position: int, data: bytes) -> None:
        stat = os.fstat(fd)
        before = os.pread(fd, len(data), position) if position < stat.st_size else b""
        self._note(stat.st_ino, path, Write(position, before, stat.st_size, len(data), data))

    def before_truncate(self, fd: int, path: str, size: int) -> None:
        stat = os.fstat(fd)
        before = os.pread(fd, stat.st_size - size, size) if size < stat.st_size else b""
        self._note(stat.st_ino, path, Write(min(size, stat.st_size), before, stat.st_size, 0))

    def _note(self, inode: int, path: str, write: Write) -> None:
        self.writes.setdefault(inode, []).append(write)
        self.paths[inode] = path

    def synced(self, fd: int, path: str) -> None:
        """Record that the content of a file, or the names in a directory, are on disk. In the case of a directory,
        earlier changes of names in other directories are on disk as well.
        """
        stat = os.fstat(fd)
        self.writes.pop(stat.st_ino, None)
        self.paths.pop(stat.st_ino, None)
        last = max((i for i, name in enumerate(self.names) if name.directory == path), default=-1)
        del self.names[: last + 1]

    def bury(self, path: str) -> str | None:
        """Link a file whose name is about to be removed to a second name, so that its content is preserved. Return this
        name; None if the path is not that of a file.
        """
        if not os.path.isfile(path):
            return None
        self.buried += 1
        grave = f"{self.root}/{GRAVEYARD}/{self.buried}"
        os.link(path, grave)
        return grave

    def _move(self, source: str, target: str) -> None:
        """Record the new path of a file, or those of the files in a directory, after it was moved to `target`."""
        stat = os.stat(target)
        if S_ISDIR(stat.st_mode):
            self.paths = {inode: moved(path, source, target) for inode, path in self.paths.items()}
        elif stat.st_ino in self.paths:
            self.paths[stat.st_ino] = target

    def created(self, path: str) -> None:
        self.names.append(Name(lambda: _remove(path), os.path.dirname(path)))

    def deleted(self, path: str, grave: str | None) -> None:
        if grave is not None:
            self.names.append(Name(lambda: _restore(grave, path), os.path.dirname(path)))

    def renamed(self, source: str, target: str, grave: str | None) -> None:
        self._move(source, target)

        def undo() -> None:
            if os.path.exists(target):
                os.rename(target, source)
                self._move(target, source)
            if grave is not None:
                _restore(grave, target)

        self.names.append(Name(undo, os.path.dirname(target)))


def moved(path: str, source: str, target: str) -> str:
    """Return the path of a file after a rename of `source` to `target`. `source` may be the file itself, a directory
    above it, or another path.
    """
    return target + path[len(source) :] if path == source or path.startswith(f"{source}/") else path


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        Path(path).unlink(missing_ok=True)


def _restore(grave: str, path: str) -> None:
    if os.path.exists(os.path.dirname(path)) and not os.path.exists(path):
        os.link(grave, path)


class Disks:
    """All disks, by mount point, and the open files."""

    def __init__(self) -> None:
        self._disks: dict[str, Disk] = {}
        self.open_files: dict[int, tuple[Disk, str]] = {}
        self.opened_by: dict[int, Process | None] = {}
        """The processes that have opened files, by descriptor. Files of dead processes stay open."""

        self._descriptors: dict[str, set[int]] = {}
        """The descriptors of open files by path."""

    def add(self, fd: int, disk: Disk, path: str) -> None:
        """Record that the current process has opened a file."""
        self.open_files[fd] = (disk, path)
        self.opened_by[fd] = PROCESS.get()
        self._descriptors.setdefault(path, set()).add(fd)

    def discard(self, fd: int) -> None:
        """Record that the file with this descriptor is closed; do nothing if it is not on a simulated disk."""
        opened = self.open_files.pop(fd, None)
        self.opened_by.pop(fd, None)
        if opened is not None:
            self._discard_descriptor(fd, opened[1])

    def _discard_descriptor(self, fd: int, path: str) -> None:
        descriptors = self._descriptors[path]
        descriptors.discard(fd)
        if not descriptors:
            del self._descriptors[path]

    def move(self, source: str, target: str) -> None:
        """Record the new paths of open files after a rename of a file, or of a directory that contains them."""
        is_directory = os.path.isdir(target)
        affected = self.open_files if is_directory else self._descriptors.get(source, ())
        for fd in list(affected):
            disk, path = self.open_files[fd]
            if (new := moved(path, source, target)) != path:
                self.open_files[fd] = (disk, new)
                self._discard_descriptor(fd, path)
                self._descriptors.setdefault(new, set()).add(fd)

    def mount(self, disk: Disk) -> None:
        self._disks[str(disk.root)] = disk

    def disk_of(self, path: object) -> Disk | None:
        """Return the disk that contains a path; None if it is on no simulated disk."""
        text = os.fspath(path)  # type: ignore[call-overload]
        return next((disk for root, disk in self._disks.items() if text.startswith(root)), None)


class OsModule(types.ModuleType):
    """Stands in for the module `os` in production code. Files on simulated disks, pipes, sockets, random bytes and
    modification times are simulated.
    """

    def __init__(
        self,
        disks: Disks,
        sockets: Callable[[int], Any],
        pipes: Pipes,
        urandom: Callable[[int], bytes],
        time_ns: Callable[[], int],
    ) -> None:
        super().__init__("os")
        self._time_ns = time_ns
        self._disks = disks
        self._pipes = pipes
        self.mkfifo = pipes.create
        self._sockets = sockets
        self.urandom = urandom
        for name in vars(os):  # what is not simulated
            if not hasattr(self, name):
                setattr(self, name, getattr(os, name))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    # Files

    def open(self, path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
        disk = self._disks.disk_of(path)
        if disk is None:
            is_pipe = self._pipes.is_pipe(path)
            return self._pipes.open(path, flags) if is_pipe else os.open(path, flags, mode, **options)
        disk.check("open", path)
        where = os.fspath(path)
        is_new = bool(flags & os.O_CREAT) and not os.path.exists(where)
        if flags & os.O_WRONLY:
            flags = flags & ~os.O_WRONLY | os.O_RDWR  # the journal reads what is overwritten
        fd = os.open(path, flags & ~os.O_TRUNC, mode, **options)
        self._disks.add(fd, disk, where)
        if is_new:
            disk.created(where)
            self._modified(fd)
        elif flags & os.O_TRUNC:
            disk.before_truncate(fd, where, 0)
            os.ftruncate(fd, 0)
            self._modified(fd)
        return fd

    def fdopen(self, fd: int, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        return SimulatedFile(self, fd, text="b" not in mode)

    def read(self, fd: int, nbytes: int) -> bytes:
        return self._pipes.read(fd, nbytes) if fd in self._pipes.ends else os.read(fd, nbytes)

    def close(self, fd: int) -> None:
        if fd in self._pipes.ends:
            return self._pipes.close(fd)
        self._disks.discard(fd)
        return os.close(fd)

    def pwrite(self, fd: int, data: Buffer, position: int) -> int:
        opened = self._disks.open_files.get(fd)
        if opened is not None:
            disk, path = opened
            disk.check("write", path)
            disk.before_write(fd, path, position, bytes(data))
        written = os.pwrite(fd, data, position)
        if opened is not None:
            self._modified(fd)
        return written

    def write(self, fd: int, data: Buffer) -> int:
        if fd in self._pipes.ends:
            return self._pipes.write(fd, len(bytes(data)))
        if fd not in self._disks.open_files:
            return os.write(fd, data)
        position = os.lseek(fd, 0, os.SEEK_CUR)
        written = self.pwrite(fd, data, position)
        os.lseek(fd, written, os.SEEK_CUR)
        return written

    def ftruncate(self, fd: int, size: int) -> None:
        opened = self._disks.open_files.get(fd)
        if opened is not None:
            opened[0].check("truncate", opened[1])
            opened[0].before_truncate(fd, opened[1], size)
        os.ftruncate(fd, size)
        if opened is not None:
            self._modified(fd)

    def _modified(self, fd: int) -> None:
        """Set the modification time of a file to the simulated time."""
        now = self._time_ns()
        os.utime(fd, ns=(now, now))

    def truncate(self, path: Any, size: int) -> None:
        if isinstance(path, int):
            return self.ftruncate(path, size)
        fd = self.open(path, os.O_RDWR)
        try:
            self.ftruncate(fd, size)
        finally:
            self.close(fd)

    def posix_fallocate(self, fd: int, offset: int, nbytes: int) -> None:
        self.ftruncate(fd, max(os.fstat(fd).st_size, offset + nbytes))

    def fsync(self, fd: int) -> None:
        opened = self._disks.open_files.get(fd)
        if opened is not None:
            opened[0].check("fsync", opened[1])
            opened[0].synced(fd, opened[1])

    fdatasync = fsync

    def statvfs(self, path: Any) -> Any:
        """Return the same size and the same free space for every disk."""
        return types.SimpleNamespace(f_frsize=4096, f_blocks=1 << 28, f_bavail=1 << 27)

    # Names

    def rename(self, source: Any, target: Any) -> None:
        disk = self._disks.disk_of(source)
        if disk is None:
            return os.rename(source, target)
        disk.check("rename", source)
        old, new = os.fspath(source), os.fspath(target)
        grave = disk.bury(new)
        os.rename(old, new)
        self._disks.move(old, new)
        return disk.renamed(old, new, grave)

    replace = rename

    def unlink(self, path: Any) -> None:
        disk = self._disks.disk_of(path)
        grave = None if disk is None else disk.bury(os.fspath(path))
        os.unlink(path)
        if disk is not None:
            disk.deleted(os.fspath(path), grave)

    remove = unlink

    def mkdir(self, path: Any, mode: int = 0o777) -> None:
        os.mkdir(path, mode)
        disk = self._disks.disk_of(path)
        if disk is not None:
            disk.created(os.fspath(path))

    def listdir(self, path: Any = ".") -> list[str]:
        return sorted(name for name in os.listdir(path) if name != GRAVEYARD)

    def scandir(self, path: Any = ".") -> Any:
        return SortedEntries(path)

    # Sockets

    def sendfile(self, out: int, source: int, position: int, nbytes: int) -> int:
        sock = self._sockets(out)
        if sock is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        sent: int = sock.send(os.pread(source, min(nbytes, 65536), position))
        return sent


class SortedEntries:
    """The entries of `os.scandir`, in an order that does not depend on the file system."""

    def __init__(self, path: Any) -> None:
        with os.scandir(path) as entries:
            self._entries = sorted((e for e in entries if e.name != GRAVEYARD), key=lambda entry: entry.name)

    def __iter__(self) -> Iterator[os.DirEntry[str]]:
        return iter(self._entries)

    def __enter__(self) -> SortedEntries:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class SimulatedFile:
    """A file object that is not buffered, and whose writes go through the simulated `os`."""

    def __init__(self, system: OsModule, fd: int, *, text: bool) -> None:
        self._system = system
        self._fd = fd
        self._text = text

    def write(self, data: Any) -> int:
        return self._system.write(self._fd, data.encode() if self._text else data)

    def read(self) -> Any:
        data = os.read(self._fd, os.fstat(self._fd).st_size)
        return data.decode() if self._text else data

    def flush(self) -> None:
        pass

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        if self._fd >= 0:
            self._system.close(self._fd)
            self._fd = -1

    def __enter__(self) -> SimulatedFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


SYSTEM: list[OsModule] = []
"""The `os` module of the current simulation, for SimulatedPath."""


class SimulatedPath(PosixPath):
    """Stands in for `pathlib.Path` in production code: changes of files go through the simulated `os`."""

    def open(self, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if PROCESS.get() is None or not set(mode) & set("wa+x"):
            return super().open(mode, *arguments, **options)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if "w" in mode else 0)
        fd = SYSTEM[0].open(self, flags, 0o644)
        if "a" in mode:
            os.lseek(fd, 0, os.SEEK_END)
        return SimulatedFile(SYSTEM[0], fd, text="b" not in mode)

    def rename(self, target: Any) -> SimulatedPath:
        SYSTEM[0].rename(self, target)
        return type(self)(target)

    def replace(self, target: Any) -> SimulatedPath:
        return self.rename(target)

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            SYSTEM[0].unlink(self)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        if self.is_dir() and exist_ok:
            return
        if parents:
            self.parent.mkdir(parents=True, exist_ok=True)
        SYSTEM[0].mkdir(self, mode)

    def touch(self, mode: int = 0o666, exist_ok: bool = True) -> None:
        SYSTEM[0].close(SYSTEM[0].open(self, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode))

    def iterdir(self) -> Any:
        return iter(sorted(path for path in super().iterdir() if path.name != GRAVEYARD))

    def glob(self, pattern: str) -> Any:
        return iter(sorted(super().glob(pattern)))
