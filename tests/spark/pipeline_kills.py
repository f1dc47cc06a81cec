"""Runs of a pipeline while its driver, Python workers and broker are killed repeatedly.

Input is sent in portions, one before each run, so that every run has work. A run whose driver dies is started again;
Spark and Ottla have to recover from the death of a worker or a broker within the run.
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
MAX_RUNS_PER_KILL = 2
VICTIMS = ("driver", "jvm", "worker", "worker", "broker", "broker")
"""What is killed, with repetitions as weights."""


class Run:
    """`ottla pipeline run` in its own process group."""

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
        """Set when a flow of the pipeline is running."""
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
        """Return the processes of this run whose command line contains `name`, except our own child."""
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
        """Return Spark's JVM, without its forks: it calls chmod for each file, by a helper process of Java."""
        actual = self.members("java")
        return [pid for pid in actual if _parent(pid) not in (*actual, None)]

    def wait(self, seconds: float = RUN_SECONDS) -> int:
        code = self.process.wait(seconds)
        self._reader.join(30)
        return code

    def kill(self) -> None:
        """Kill the client, the JVM and the workers."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.wait()


def _parent(pid: int) -> int | None:
    """Return the parent of a process, or None if the process has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


class Killer:
    """Kills processes a number of times, over as many runs as necessary."""

    def __init__(self, project: Path, broker: BrokerProcess, dice: random.Random, kills: int) -> None:
        self.project, self.broker, self.dice = project, broker, dice
        self.left = [VICTIMS[i % len(VICTIMS)] for i in range(kills)]
        dice.shuffle(self.left)
        self.done: list[str] = []

    def work(self, feed: Callable[[], None], **options: int) -> None:
        """Send input, run and kill until all kills are done; the last run may be incomplete."""
        runs = 0
        while self.left:
            runs += 1
            assert runs <= MAX_RUNS_PER_KILL * (len(self.left) + len(self.done)), f"only {self.done} were killed"
            feed()
            run = Run(self.project, self.broker.bootstrap, "--master", "local[2,4]", **options)
            try:
                self._kill_during(run)
            finally:
                run.kill()

    def _kill_during(self, run: Run) -> None:
        """Kill until the driver has been killed, or the run has ended."""
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
        """Kill the victim; return False if there is none at the moment."""
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


def delete_last_commits(project: Path) -> int:
    """Delete the last commit of every stream, as if it had been killed before it; return the number of streams."""
    actual = 0
    for commits in (project / "pipeline-storage" / "_checkpoints").rglob("commits"):
        last = max((int(path.name) for path in commits.iterdir() if path.name.isdigit()), default=None)
        if last is not None:
            (commits / str(last)).unlink()
            (commits / f".{last}.crc").unlink(missing_ok=True)
            actual += 1
    return actual
