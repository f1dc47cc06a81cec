"""Processes that outlive the command that started them, found again by their id.

An id may belong to somebody else by now: a process is ours only if its command line names what it was started with.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

LOOK_SECONDS: Final = 0.02
DELIVERY_SECONDS: Final = 5.0
STOPPED: Final = "T"
"""The state of a stopped process, in Linux' /proc as in what ps tells."""
_children: Final[list[subprocess.Popen[bytes]]] = []
"""Those that this very process started, which it has to wait for when they have ended."""


def start(command: Sequence[str], log: Path) -> int:
    """Start it in a session of its own, so that Ctrl+C here does not reach it; its id."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True, close_fds=True
        )
    _children.append(process)
    # for a moment after the start Linux has no command line of it yet
    while process.poll() is None and not _command_line(process.pid):
        time.sleep(LOOK_SECONDS)
    return process.pid


def is_running(pid: int, word: str) -> bool:
    """Whether the process runs, or is stopped, and has `word` in its command line."""
    for child in _children:
        child.poll()
    return pid > 0 and word in _command_line(pid)


def is_stopped(pid: int, word: str) -> bool:
    """Whether the process is there, but was stopped (SIGSTOP)."""
    return is_running(pid, word) and _state(pid).startswith(STOPPED)


def wait_for_end(pid: int, word: str, seconds: float) -> bool:
    """Wait until it has ended; whether it has in time."""
    deadline = time.monotonic() + seconds
    while is_running(pid, word):
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_SECONDS)
    return True


def end(pid: int, word: str, seconds: float) -> bool:
    """End it in order; by force, and then False, where that takes longer."""
    if not send(pid, word, signal.SIGCONT):
        return True
    send(pid, word, signal.SIGTERM)
    if wait_for_end(pid, word, seconds):
        return True
    send(pid, word, signal.SIGKILL)
    wait_for_end(pid, word, seconds)
    return False


def send(pid: int, word: str, number: signal.Signals) -> bool:
    """Send a signal; False where the process does not run. One that is to stop, or to go on, has done so on return."""
    if not is_running(pid, word):
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    if number in (signal.SIGSTOP, signal.SIGCONT):
        _wait_until(pid, word, stopped=number == signal.SIGSTOP)
    return True


def _wait_until(pid: int, word: str, *, stopped: bool) -> None:
    """A busy machine takes its time to deliver a signal."""
    deadline = time.monotonic() + DELIVERY_SECONDS
    while is_running(pid, word) and is_stopped(pid, word) != stopped and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)


def _state(pid: int) -> str:
    """Its letter; empty for a process that has ended."""
    try:
        # the name before it is in parentheses, and may have any in it
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].strip()
    except OSError:
        if Path("/proc/self").exists():
            return ""
    told = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True)
    return told.stdout.strip()


def _command_line(pid: int) -> str:
    """Empty for a process that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        if Path("/proc/self").exists():
            return ""
    told = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True)
    return told.stdout
