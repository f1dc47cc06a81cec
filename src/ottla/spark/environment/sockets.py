"""Unix domain sockets between Spark's JVM and its Python workers on one machine, in a directory of their own.

By TCP, Spark's default, what a task has read costs more to hand over. It is handed over in larger pieces, too. The
directory is there because Spark leaves a file of each session behind.

For long jobs, `local_session(config=worker_sockets())`; not the default, as a worker that is idle when its session ends
then logs a traceback because its last message cannot be sent (BrokenPipeError; over TCP it does not notice).
"""

from __future__ import annotations

import atexit
import shutil
import socket
import tempfile
from functools import cache
from typing import Final

LONGEST: Final = 104 - len("/.00000000-0000-0000-0000-000000000000.sock")
"""A socket's path may have 104 characters, and these are its name."""

BUFFER_BYTES: Final = 256 * 1024
"""Size of the reads of JVM and workers: all that a socket holds; Spark's 64 KiB take 4 % more processor time."""


@cache
def worker_sockets() -> dict[str, str]:
    """Return the configs of a session of Spark 4.1 or later on this machine; none on Windows, which has no Unix
    sockets.

    There are none, too, if the path for temporary files is too long. The directory is deleted when this process ends.
    """
    if not hasattr(socket, "AF_UNIX"):
        return {}
    directory = tempfile.mkdtemp(prefix="ottla-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    if len(directory) > LONGEST:
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": directory,
        "spark.buffer.size": str(BUFFER_BYTES),
    }
