"""Processes that continue to run after the command that started them has ended. They are identified by their pid.

Because pids are reused, all public functions except `start` also take a word of the command that started the process.
If the command line of the process with this pid does not contain the word, it is another process, and the requested one
is considered ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

POLL_SECONDS: Final = 0.02
DELIVERY_SECONDS: Final = 5.0
"""Maximum time in seconds to wait until SIGSTOP or SIGCONT has taken effect."""
STOPPED: Final = "T"
"""The state of a paused process in /proc on Linux, and in the output of ps."""
_children: Final[list[subprocess.Popen[bytes]]] = []
"""Child processes of this process. They must be polled, otherwise they would remain as zombies after their end."""


def start(command: Sequence[str], log: Path) -> int:
    """Start a process in a new session, so that Ctrl+C does not reach it, and return its pid. The output of the process
    is appended to the file `log`.
    """
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True, close_fds=True
        )
    _children.append(process)
    # Linux has no command line of a process for a moment after its start.
    while process.poll() is None and not _command_line(process.pid):
        time.sleep(POLL_SECONDS)
    return process.pid


def is_running(pid: int, word: str) -> bool:
    """Return whether the process exists, running or paused."""
    for child in _children:
        child.poll()
    return pid > 0 and word in _command_line(pid)


def is_stopped(pid: int, word: str) -> bool:
    """Return whether the process exists and is paused by SIGSTOP."""
    return is_running(pid, word) and _state(pid).startswith(STOPPED)


def wait_for_end(pid: int, word: str, seconds: float) -> bool:
    """Wait up to `seconds` until the process has ended. Return whether it has."""
    deadline = time.monotonic() + seconds
    while is_running(pid, word):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def stop(pid: int, word: str, seconds: float) -> bool:
    """Resume the process and stop it with SIGTERM. If it has not ended after `seconds`, kill it and return False.
    Return True if it has ended, or did not exist.
    """
    if not send(pid, word, signal.SIGCONT):
        return True
    send(pid, word, signal.SIGTERM)
    if wait_for_end(pid, word, seconds):
        return True
    send(pid, word, signal.SIGKILL)
    wait_for_end(pid, word, seconds)
    return False


def send(pid: int, word: str, number: signal.Signals) -> bool:
    """Send a signal. Return False if the process does not exist. For SIGSTOP and SIGCONT, wait up to DELIVERY_SECONDS
    until they have taken effect.
    """
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
    """Wait up to DELIVERY_SECONDS until the process is paused or resumed, which takes a moment on a busy machine."""
    deadline = time.monotonic() + DELIVERY_SECONDS
    while is_running(pid, word) and is_stopped(pid, word) != stopped and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def _state(pid: int) -> str:
    """Return a text that begins with the letter of the process state; empty if the process does not exist."""
    try:
        # The name before it is in parentheses and may contain some itself.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].strip()
    except OSError:
        if Path("/proc/self").exists():
            return ""
    result = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True)
    return result.stdout.strip()


def _command_line(pid: int) -> str:
    """Return the command line of the process; empty if it has ended or does not exist."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        if Path("/proc/self").exists():
            return ""
    result = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True)
    return result.stdout
