"""Sessions of the processes that share an SQLite metadata store. They detect processes that have died, and notify
processes of changes.

Each session has two named pipes in the directory `sessions`. However a process dies, the kernel closes its pipes, so
the other processes notice it reliably and at once:

    7.alive     the process of session 7 holds it open, so the others notice when that process ends. Its modification
                time is the last heartbeat.
    7.changes   the process of session 7 reads it; the others write a byte after each change of the tree

Pipes are used because their paths may be longer than those of Unix sockets, and because they need no connection.
"""

from __future__ import annotations

import errno
import os
import time
import weakref
from pathlib import Path
from typing import Final

OWNER_ONLY: Final = 0o600
ALIVE: Final = "alive"
CHANGES: Final = "changes"
READ_BYTES: Final = 4096

_own: weakref.WeakSet[OwnSession] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """Close the pipes in a forked child. Otherwise it would keep the session of its parent alive."""
    for session in list(_own):
        session.close_pipes()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _now_ns() -> int:
    """Return the monotonic time, which is the same for all processes of a machine and cannot be set."""
    return time.monotonic_ns()


class OwnSession:
    """The session of this process."""

    def __init__(self, directory: Path, number: int) -> None:
        """Create the pipes, and hold them open."""
        self.id = number
        self._paths = [directory / f"{number}.{kind}" for kind in (ALIVE, CHANGES)]
        self._fds = []
        for path in self._paths:
            path.unlink(missing_ok=True)
            os.mkfifo(path, OWNER_ONLY)
            self._fds.append(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        self.beat()
        _own.add(self)

    @property
    def changes_fd(self) -> int:
        """A file descriptor that becomes readable when another process calls `notify` for this session."""
        return self._fds[1]

    def drain(self) -> None:
        """Read and discard the bytes that other processes have written."""
        try:
            while len(os.read(self.changes_fd, READ_BYTES)) == READ_BYTES:
                pass
        except BlockingIOError:
            pass

    def beat(self) -> None:
        """Send a heartbeat: set the modification time of the `alive` pipe.

        A process that sends none for too long loses its session.
        """
        now = _now_ns()
        try:
            os.utime(self._paths[0], ns=(now, now))
        except FileNotFoundError:
            pass  # another process has ended this session, which this process will notice in the tree

    def close(self) -> None:
        """Delete and close the pipes. To the other processes, this is the end of the session."""
        for path in self._paths:
            path.unlink(missing_ok=True)
        self.close_pipes()

    def close_pipes(self) -> None:
        """Close the pipes of this process."""
        fds, self._fds = self._fds, []
        for fd in fds:
            os.close(fd)


class PeerSession:
    """The session of another process. Creating it raises ProcessLookupError if that process has ended."""

    def __init__(self, directory: Path, number: int) -> None:
        self.id = number
        self._alive_path = directory / f"{number}.{ALIVE}"
        try:
            # `alive` is opened first: the other process holds both pipes open until it ends, so if it ends from now on,
            # this pipe shows it.
            self.alive_fd = os.open(self._alive_path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            raise ProcessLookupError(number) from None
        try:
            self._changes_fd = os.open(directory / f"{number}.{CHANGES}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            os.close(self.alive_fd)
            if error.errno in (errno.ENXIO, errno.ENOENT):  # no process reads it
                raise ProcessLookupError(number) from None
            raise

    def notify(self) -> None:
        """Notify the process that it should read the changes of the tree."""
        try:
            os.write(self._changes_fd, b"\0")
        except (BlockingIOError, BrokenPipeError):
            pass  # the process is already notified, or has ended

    def silent_seconds(self) -> float:
        """Return the time in seconds since the last heartbeat; 0 if the pipes have been deleted."""
        try:
            return (_now_ns() - os.stat(self._alive_path).st_mtime_ns) / 1e9
        except FileNotFoundError:
            return 0.0  # the process has ended, which is noticed elsewhere

    def close(self) -> None:
        """Close the pipes to the process."""
        os.close(self.alive_fd)
        os.close(self._changes_fd)


def is_alive(directory: Path, number: int) -> bool:
    """Return whether a process holds this session open."""
    try:
        PeerSession(directory, number).close()
    except ProcessLookupError:
        return False
    return True


def delete_files(directory: Path, number: int) -> None:
    """Delete the pipes of a session that has ended."""
    for kind in (ALIVE, CHANGES):
        (directory / f"{number}.{kind}").unlink(missing_ok=True)
