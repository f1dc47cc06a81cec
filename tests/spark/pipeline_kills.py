"""Runs of a pipeline that is killed again and again: driver, Python workers, broker.

Input comes in portions, one before each run, so that there is always something to kill. A run whose driver dies is
started again; a worker or broker that dies is Spark's or ours to get over within the run.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.crash.process import BrokerProcess

RUN_SECONDS = 1200
MOST_RUNS_PER_KILL = 2
VICTIMS = ("driver", "jvm", "worker", "worker", "broker", "broker")
"""What is killed, each as often as it stands here."""


class Run:
    """`ottla pipeline run` as a process group of its own."""

    def __init__(self, project: Path, address: str, *more: str, offsets: int | None = None) -> None:
        environment = {**os.environ, "OTTLA_PIPELINE_MAX_OFFSETS": str(offsets)} if offsets else {**os.environ}
        self.log = project / "runs.log"
        command = ["pipeline", "run", "--spec", str(project), "--bootstrap-server", address, "--json", *more]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ottla", *command],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                start_new_session=True,
            )
        self.running = threading.Event()
        """Something is being computed."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.log.open("a") as log:
            for line in self.process.stdout:
                log.write(line)
                log.flush()
                if line.startswith("{") and json.loads(line).get("state") == "RUNNING":
                    self.running.set()
        self.running.set()

    def members(self, name: str) -> list[int]:
        """The processes of this run whose command line has `name` in it, but not our own child."""
        result = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != self.process.pid:
                try:
                    pid = int(entry.name)
                    if os.getsid(pid) == self.process.pid and name in (entry / "cmdline").read_text():
                        result.append(pid)
                except OSError:
                    continue
        return result

    def jvms(self) -> list[int]:
        """Spark's JVM while it runs, without what it forks: for each file it calls chmod, by a helper of Java's."""
        actual = self.members("java")
        return [pid for pid in actual if _parent(pid) not in (*actual, None)]

    def wait(self, seconds: float = RUN_SECONDS) -> int:
        code = self.process.wait(seconds)
        self._reader.join(30)
        return code

    def kill(self) -> None:
        """Client, JVM and workers."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.wait()


def _parent(pid: int) -> int | None:
    """None for a process that has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


class Killer:
    """Kills a number of times, over as many runs as that takes."""

    def __init__(self, project: Path, broker: BrokerProcess, dice: random.Random, kills: int) -> None:
        self.project, self.broker, self.dice = project, broker, dice
        self.left = [VICTIMS[i % len(VICTIMS)] for i in range(kills)]
        dice.shuffle(self.left)
        self.done: list[str] = []

    def work(self, feed: Callable[[], None], **options: int) -> None:
        """Feed, run and kill until all kills are done; the last run may or may not be complete."""
        runs = 0
        while self.left:
            runs += 1
            assert runs <= MOST_RUNS_PER_KILL * (len(self.left) + len(self.done)), f"only {self.done} were killed"
            feed()
            run = Run(self.project, self.broker.bootstrap, "--master", "local[2,4]", **options)
            try:
                self._disturb(run)
            finally:
                run.kill()

    def _disturb(self, run: Run) -> None:
        """Kill until the driver was, or the run has ended."""
        assert run.running.wait(RUN_SECONDS)
        while self.left:
            try:
                run.wait(self.dice.uniform(1, 12))
                return
            except subprocess.TimeoutExpired:
                pass
            victim = self.left[0]
            if not self.kill(run, victim):
                continue
            self.done.append(self.left.pop(0))
            print(f"{time.strftime('%X')} killed {victim}, {len(self.left)} left", flush=True)
            if victim in ("driver", "jvm"):
                return

    def kill(self, run: Run, victim: str) -> bool:
        """False where there is none at the moment."""
        if victim == "driver":
            run.kill()
        elif victim == "broker":
            self.broker.kill()
            time.sleep(self.dice.uniform(0, 3))
            self.broker.start()
        else:
            actual = run.jvms() if victim == "jvm" else run.members("pyspark")
            if victim == "worker":
                # The daemon forks the workers; it may be the victim, too. So may the processes that plan a source.
                actual = [pid for pid in actual if pid not in run.members("java")]
            if not actual:
                return False
            os.kill(self.dice.choice(actual), signal.SIGKILL)
        return True


def complete(project: Path, address: str, *more: str, **options: int) -> None:
    """Run the pipeline without faults."""
    run = Run(project, address, *more, **options)
    try:
        code = run.wait()
    finally:
        run.kill()
    assert code == 0, run.log.read_text()[-3000:]


def forget_last_commits(project: Path) -> int:
    """As if every stream had been killed after its last data and before its checkpoint; how many there are."""
    actual = 0
    for commits in (project / "pipeline-storage" / "_checkpoints").rglob("commits"):
        last = max((int(path.name) for path in commits.iterdir() if path.name.isdigit()), default=None)
        if last is not None:
            (commits / str(last)).unlink()
            (commits / f".{last}.crc").unlink(missing_ok=True)
            actual += 1
    return actual
