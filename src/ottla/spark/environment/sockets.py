"""Configs with which Spark's JVM and its Python workers communicate over Unix domain sockets.

Such sockets transfer rows with less CPU time than TCP, Spark's default. Buffers are also larger. The sockets have a
directory of their own, because Spark leaves a file of each session behind.

Use the configs for long jobs: `local_session(config=worker_sockets())`. They are not the default, because a worker that
is idle when its session ends then logs a traceback (BrokenPipeError).
"""

from __future__ import annotations

import atexit
import shutil
import socket
import tempfile
from functools import cache
from typing import Final

LONGEST: Final = 104 - len("/.00000000-0000-0000-0000-000000000000.sock")
"""Maximum length of the directory's path: the path of a socket, which includes its name, may have 104 characters."""

BUFFER_BYTES: Final = 256 * 1024
"""The size in bytes of the buffers with which the JVM and the workers read. With Spark's default of 64 KiB, CPU time is
4 % higher.
"""


@cache
def worker_sockets() -> dict[str, str]:
    """Return the configs with which Spark 4.1 or later uses Unix domain sockets between the JVM and its Python workers.

    Return an empty dict on Windows, where Python has no Unix domain sockets, or if the path of the temporary directory
    is too long. The directory is deleted when this process exits.
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
