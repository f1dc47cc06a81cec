"""Spark's Python workers: checks of their Python, and two optimizations of their latency.

Workers run PYSPARK_PYTHON, else the python3 of the PATH, which is another Python if a virtual environment is not
activated. Every query would then fail in a worker with a traceback about a missing module.
"""

from __future__ import annotations

import gc
import os
import shutil
import socket
import subprocess
import sys
from contextlib import suppress
from functools import cache

from ottla.errors import ConfigurationError

_PROBE = "import ottla, sys; print('%d.%d' % sys.version_info[:2])"
_PROBE_SECONDS = 30

_kept = 0
"""Number of modules at the last freeze; counting objects instead would take milliseconds."""


def keep_what_is_loaded() -> None:
    """Freeze loaded modules for the garbage collector, when Spark starts using us.

    Spark's Python processes collect garbage between tasks (and source lookups), and the next task waits for it: about
    40 ms to traverse the modules of Spark, Arrow and Ottla, which are never garbage; 5 ms without them. Later calls do
    nothing unless modules have been imported since.
    """
    global _kept
    if len(sys.modules) != _kept:
        gc.freeze()
        _kept = len(sys.modules)


class SentToWorkers:
    """Mixin for readers and writers that makes the rest of a task arrive at once after they are unpickled in a worker.

    Over TCP Spark sends a task in two segments, and the second waits for the acknowledgement of the first (Nagle's
    algorithm), which the worker's system delays by 40 ms as it has no data to send. The reader or writer is in the
    first.
    """

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        acknowledge()


def acknowledge() -> None:
    """Acknowledge received data on all TCP connections of this process. Does nothing except on Linux."""
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    # Spark does not pass its connection to data sources.
    with suppress(OSError):
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            _acknowledge(descriptor)


def _acknowledge(descriptor: int) -> None:
    # Files, and sockets other than TCP, refuse the option.
    if sys.platform != "linux":
        return
    with suppress(OSError):
        connection = socket.socket(fileno=descriptor)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        finally:
            connection.detach()


def check_workers(executable: str) -> None:
    """Raise ConfigurationError if workers of this Python could not run Ottla. Costs nothing if it is the driver's
    Python.
    """
    path = shutil.which(executable)
    if path != sys.executable:
        _check_other(executable, path)


@cache
def _check_other(executable: str, path: str | None) -> None:
    fault = "is not there" if path is None else _fault(path)
    if fault is not None:
        raise ConfigurationError(
            f"Spark's workers would run {executable} ({path or 'not found'}), which {fault}."
            f" Set PYSPARK_PYTHON={sys.executable} before the session starts"
        )


def _fault(python: str) -> str | None:
    """Return the reason why this Python cannot run Ottla's workers, or None."""
    try:
        answer = subprocess.run(
            [python, "-c", _PROBE], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"does not run ({error})"
    version, own = answer.stdout.strip(), f"{sys.version_info.major}.{sys.version_info.minor}"
    if not version:
        return "cannot import ottla"
    return None if version == own else f"is Python {version}, and this is {own}"
