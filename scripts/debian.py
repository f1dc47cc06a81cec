"""Installs Debian packages that tests need, if the machine lets them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path


def program(name: str, package: str | None = None) -> str | None:
    """Return the path of a program; None if it is missing and its package (default: its name) cannot be installed."""
    if shutil.which(name) is None:
        install(package or name)
    return shutil.which(name)


def install(package: str) -> None:
    """Try to install a package. Only one process does so at a time, because apt-get fails if it is locked."""
    if shutil.which("apt-get") is None:
        return
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with Path(tempfile.gettempdir(), "ottla-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", package]):
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run([*sudo, "apt-get", *command], env=quiet, capture_output=True, timeout=300)
