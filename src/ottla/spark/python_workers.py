"""The Python that Spark starts for its workers, which need not be the one that the program runs in.

Spark takes PYSPARK_PYTHON, else the python3 of the PATH: with a virtual environment that is not activated, some other
one. Then every query would fail in a worker, with a traceback about a missing module.
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
"""How many modules were loaded when `keep_what_is_loaded` last froze something; counting objects takes milliseconds."""


def keep_what_is_loaded() -> None:
    """Called where Spark starts to work with us: the collector leaves alone what is loaded by then.

    Spark's Python processes collect garbage between any two tasks (and looks at a source), and the next one waits for
    it: some 40 ms to walk over Spark's, Arrow's and our modules, of which nothing is ever garbage; 5 ms without them.
    Called again it does nothing, unless modules have been imported since, as a first task does.
    """
    global _kept
    if len(sys.modules) != _kept:
        gc.freeze()
        _kept = len(sys.modules)


class SentToWorkers:
    """Mixed into readers and writers: where one arrives in a worker, the rest of its task comes at once.

    Over TCP Spark sends a task in two pieces, and the second waits until the first has been acknowledged (Nagle's
    algorithm), which the worker's system delays by 40 ms, as the worker has nothing to say yet. The reader or writer
    is in the first.
    """

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        acknowledge()


def acknowledge() -> None:
    """Acknowledge now what has come by this process' connections. Does nothing but on Linux."""
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    # Spark does not hand its connection on to what it calls.
    with suppress(OSError):
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            _acknowledge(descriptor)


def _acknowledge(descriptor: int) -> None:
    # Files, and sockets that are not TCP, refuse.
    with suppress(OSError):
        connection = socket.socket(fileno=descriptor)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        finally:
            connection.detach()


def check_workers(executable: str) -> None:
    """ConfigurationError where workers of this Python could not run Ottla; at no cost where it is our own."""
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
    """What keeps this Python from running our workers; None where nothing does."""
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
