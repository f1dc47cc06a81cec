"""Finds the process that owns the other end of a loopback connection, using Linux's /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def owner_of(port: int, pids: Iterable[int]) -> int | None:
    """Return which of these processes has a socket with this local port, or None."""
    expected = {f"socket:[{inode}]" for inode in _inodes(port)}
    if not expected:
        return None
    return next((pid for pid in pids if not expected.isdisjoint(_open_files(pid))), None)


def _inodes(port: int) -> list[str]:
    ending = f":{port:04X}"
    result = []
    for table in TABLES:
        for line in table.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1].endswith(ending) and fields[9] != "0":
                result.append(fields[9])
    return result


def _open_files(pid: int) -> Iterable[str]:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        try:
            yield os.readlink(f"{folder}/{name}")
        except OSError:
            continue
