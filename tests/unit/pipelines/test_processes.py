"""Child processes of the demo: their reports, ends and locks."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla_pipelines.processes import Child, ProcessEndedError, wait_for_release

REPORTS = "import json,sys; print('noise'); print(json.dumps({'seen': 7})); sys.stdout.flush(); sys.stdin.read()"


def test_json_facts_of_a_child_process_are_received(tmp_path: Path) -> None:
    child = Child("c", [sys.executable, "-c", REPORTS], tmp_path)
    child.finish()
    assert child.facts == {"seen": 7}
    child.check()


def test_killed_child_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    code = "import os,sys; print('the reason', file=sys.stderr, flush=True); os.kill(os.getpid(), 9)"
    child = Child("spark", [sys.executable, "-c", code], tmp_path)
    child.finish()
    with pytest.raises(ProcessEndedError, match=r"(?s)spark ended too early \(killed by signal 9\).*the reason"):
        child.check()


def test_child_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla_pipelines.processes.STOP_TIMEOUT_S", 0.2)
    code = (
        "import signal,json,time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print(json.dumps({'up': 1}), flush=True); time.sleep(60)"
    )
    child = Child("c", [sys.executable, "-c", code], tmp_path)
    while "up" not in child.facts:
        time.sleep(0.01)
    child.stop()
    assert child.process.returncode == -signal.SIGKILL


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel does this on Linux only")
def test_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys,time; from pathlib import Path; from ottla_pipelines.processes import Child;"
        f"c = Child('c', [sys.executable, '-c', 'import time; time.sleep(60)'], Path({str(tmp_path)!r}));"
        "print(c.process.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while is_alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_wait_for_release_waits_until_the_lock_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / ".lock"
    wait_for_release(lock)  # Without a lock file there is nothing to wait for.
    lock.touch()
    lock_file = lock.open()
    fcntl.flock(lock_file, fcntl.LOCK_EX)
    sleeps: list[float] = []

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 3:
            lock_file.close()

    monkeypatch.setattr("ottla_pipelines.processes.time.sleep", sleep)
    wait_for_release(lock)
    assert len(sleeps) == 3


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        # A zombie remains until process 1 collects it, but it is dead.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
