"""Spark's Python workers: a check of their Python, and two optimizations of their latency.

By default, workers run PYSPARK_PYTHON or, without it, the first python3 in PATH. The latter is another Python if the
virtual environment is not activated: queries would then fail in a worker because a module is missing.
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

_frozen_modules = 0
"""The number of loaded modules at the last call of gc.freeze(). Counting objects would take milliseconds."""


def freeze_loaded_modules() -> None:
    """Exclude the objects of loaded modules from garbage collection (gc.freeze).

    Called when Spark starts to use the data source in a process. Spark's Python processes collect garbage after each
    task, and the next task waits for it. Traversing the modules of Spark, Arrow and Ottla, which are never garbage,
    takes about 40 ms; 5 ms without them. Further calls do nothing unless modules have been imported meanwhile.
    """
    global _frozen_modules
    if len(sys.modules) != _frozen_modules:
        gc.freeze()
        _frozen_modules = len(sys.modules)


class SentToWorkers:
    """Mixin for readers and writers: when they are unpickled in a worker on Linux, the remaining part of the task
    arrives without delay.

    Spark sends a task over TCP in two segments. The second one waits for the acknowledgement of the first (Nagle's
    algorithm), which the worker's operating system delays by 40 ms. The pickled reader or writer is in the first
    segment, so that unpickling it can acknowledge the segment at once.
    """

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        acknowledge()


def acknowledge() -> None:
    """Acknowledge received data on all TCP connections of this process (TCP_QUICKACK). Does nothing except on Linux."""
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
    """Raise ConfigurationError if this Python does not exist, does not run, or cannot import Ottla, or if its minor
    version differs from that of the driver. The driver's own Python is not checked.
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
    """Return the reason why this Python cannot run Spark workers that import ottla; None if it can."""
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
