"""Named pipes between simulated processes, through which the embedded metadata store notices changes and killed
processes.

A pipe is an empty file in the directory of the run, so that paths and modification times are real. Only the number of
its bytes is simulated; all of them are read as zeros. Bytes, and the end of a process, reach readers after a delay.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from typing import Any, Final

from ottla.simulation.event_loop import SimulatedLoop
from ottla.simulation.process import Process, current

FIRST_DESCRIPTOR: Final = 2_000_000
"""The descriptors of simulated pipes are above this number, and so above those of sockets."""
TYPICAL_DELAY_SECONDS: Final = 0.0005
LATE_SHARE: Final = 0.05
"""The share of writes that arrive up to LATE_SECONDS later."""
LATE_SECONDS: Final = 1.5
CAPACITY_BYTES: Final = 65536


class Pipe:
    """A pipe. It continues to exist for processes that hold it open after its name was deleted."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.available = 0
        """The number of bytes that can be read."""
        self.ends: dict[PipeEnd, None] = {}

    @property
    def writers(self) -> int:
        return sum(end.writes for end in self.ends)


class PipeEnd:
    """An open descriptor of a pipe."""

    is_writable = True

    def __init__(self, pipe: Pipe, process: Process, fd: int, *, reads: bool, writes: bool) -> None:
        self.pipe, self.process, self.fd = pipe, process, fd
        self.reads, self.writes = reads, writes
        self.had_writer = writes or pipe.writers > 0
        """Whether there was a writer when this descriptor was opened, or has been one since. Only then does a reader
        see the end of the pipe if there is no writer, as in Linux.
        """

    @property
    def is_readable(self) -> bool:
        return self.pipe.available > 0 or (self.had_writer and not self.pipe.writers)


class Pipes:
    """All named pipes of a simulation."""

    def __init__(self, loop: SimulatedLoop, rng: random.Random) -> None:
        self._loop = loop
        self._rng = rng
        self._pipes: dict[str, Pipe] = {}
        self.ends: dict[int, PipeEnd] = {}
        """The open descriptors."""
        self._next_descriptor = FIRST_DESCRIPTOR

    def create(self, path: Any, mode: int) -> None:
        """Create a pipe, like `os.mkfifo`."""
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, mode))
        self._pipes[os.fspath(path)] = Pipe(os.fspath(path))

    def is_pipe(self, path: Any) -> bool:
        return os.fspath(path) in self._pipes

    def open(self, path: Any, flags: int) -> int:
        """Open a pipe in the current process, without blocking, and return the descriptor, which is closed when the
        process dies. Raises OSError if the name of the pipe was deleted (ENOENT), or if a pipe without readers is
        opened only for writing (ENXIO).
        """
        os.stat(path)  # its name may have been deleted
        pipe, access = self._pipes[os.fspath(path)], flags & os.O_ACCMODE
        if access == os.O_WRONLY and not any(end.reads for end in pipe.ends):
            raise OSError(errno.ENXIO, os.strerror(errno.ENXIO), path)
        self._next_descriptor += 1
        process, fd = current(), self._next_descriptor
        end = PipeEnd(pipe, process, fd, reads=access != os.O_WRONLY, writes=access != os.O_RDONLY)
        for other in pipe.ends:
            other.had_writer = other.had_writer or end.writes
        pipe.ends[end] = None
        self.ends[fd] = end
        self._loop.polled.sockets[fd] = end
        process.on_death.append(lambda: self.close(fd))
        return fd

    def read(self, fd: int, nbytes: int) -> bytes:
        end = self.ends[fd]
        if not end.is_readable:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        size = min(nbytes, end.pipe.available)
        end.pipe.available -= size
        return bytes(size)

    def write(self, fd: int, nbytes: int) -> int:
        pipe = self.ends[fd].pipe
        if not any(end.reads for end in pipe.ends):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        if pipe.available + nbytes > CAPACITY_BYTES:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        late = self._rng.uniform(0, LATE_SECONDS) if self._rng.random() < LATE_SHARE else 0.0
        self._later(late, pipe, nbytes)
        return nbytes

    def close(self, fd: int) -> None:
        end = self.ends.pop(fd, None)
        if end is None:
            return
        self._loop.polled.sockets.pop(fd, None)
        del end.pipe.ends[end]
        if not end.pipe.writers:
            self._later(0.0, end.pipe, 0)

    def _later(self, late: float, pipe: Pipe, nbytes: int) -> None:
        delay = self._rng.expovariate(1 / TYPICAL_DELAY_SECONDS) + late
        self._loop.call_outside(self._loop.time() + delay, self._arrive, pipe, nbytes)

    def _arrive(self, pipe: Pipe, nbytes: int) -> None:
        pipe.available += nbytes
        for end in pipe.ends:
            if end.reads:
                self._loop.polled.activate(end.fd)

    def held_by(self, host: str) -> Iterator[str]:
        """Yield the paths of pipes that processes of a host hold open for both reading and writing."""
        for end in self.ends.values():
            if end.reads and end.writes and end.process.host == host:
                yield end.pipe.path
