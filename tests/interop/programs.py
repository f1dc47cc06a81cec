"""Programs in Go and JavaScript that run scenarios with the clients of those languages; built once into `.cache/`."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from scripts.maven import CACHE, locked
from tests.interop.scenarios import checked_by

HERE = Path(__file__).parent
BUILD_SECONDS = 600
QUICK = ("-gcflags=all=-N -l", "-ldflags=-s -w")
"""Without optimization and debug information: half of the CPU time of a first build, which compiles all of Go."""


@cache
def _go_program() -> Path | str:
    """Return the program built from `go/`, or why it is not available."""
    if shutil.which("go") is None:
        return "go is not on the PATH"
    target = CACHE / "go" / "interop"
    with locked("go"):
        done = subprocess.run(
            ["go", "build", *QUICK, "-o", str(target), "."],
            cwd=HERE / "go",
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
        )
    return target if done.returncode == 0 else f"go build failed: {done.stderr[-500:]}"


@cache
def _node_modules() -> Path | str:
    """Return the folder with kafkajs, or why it is not available."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            return f"{program} is not on the PATH"
    home = CACHE / "node"
    with locked("node"):
        if not (home / "done").exists():
            home.mkdir(parents=True, exist_ok=True)
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / "node" / name, home / name)
            command = ["npm", "ci", "--no-audit", "--no-fund"]
            done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=BUILD_SECONDS)
            if done.returncode:
                return f"npm failed: {done.stderr[-500:]}"
            (home / "done").touch()
    return home / "node_modules"


def go_version(module: str) -> str:
    """Return the version of a module that the Go program is built with."""
    lines = (HERE / "go" / "go.mod").read_text().split()
    return lines[lines.index(module) + 1].lstrip("v")


def kafkajs_version() -> str:
    document: str = json.loads((HERE / "node" / "package.json").read_text())["dependencies"]["kafkajs"]
    return document


def run_go(scenario: str, bootstrap: str, name: str) -> list[str]:
    """Run a scenario of the Go program, and return what it checked. Skip the test if there is no Go."""
    program = _go_program()
    if isinstance(program, str):
        pytest.skip(f"Go clients: {program}")
    return checked_by([str(program), scenario, bootstrap, name])


def run_kafkajs(bootstrap: str, topic: str) -> list[str]:
    """Run the scenario of kafkajs, and return what it checked. Skip the test if there is no Node.js."""
    modules = _node_modules()
    if isinstance(modules, str):
        pytest.skip(f"kafkajs: {modules}")
    return checked_by(["node", str(HERE / "node" / "scenario.js"), bootstrap, topic], NODE_PATH=str(modules))
