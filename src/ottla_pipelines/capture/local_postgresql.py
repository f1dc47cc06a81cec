"""A PostgreSQL server in a temporary directory, for the demo and for tests.

PostgreSQL refuses to run as root, so root starts it as the user that its package has created.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.errors import KafkaError
from ottla.net.ports import free_port
from ottla_pipelines.processes import die_with_parent

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 20.0
PLACES: Final = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")
"""Glob patterns of the directories of the packages of Debian, Red Hat and Homebrew, which may not be in PATH."""
USER: Final = "postgres"

Command = Sequence[str | Path]


class ServerError(KafkaError):
    """Raised if a server does not start, or if a command fails."""


def programs() -> Path | None:
    """Return the directory with PostgreSQL's programs, or None if no PostgreSQL is found."""
    for place in PLACES:
        servers = sorted(Path("/").glob(f"{place[1:]}/postgres"))
        if servers:
            return servers[-1].parent
    program = shutil.which("postgres")
    return Path(program).resolve().parent if program else None


@contextlib.contextmanager
def running(settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run a new, empty server until the context exits, and yield its URL. Raises ServerError if PostgreSQL is not
    installed or the server does not start.

    `settings`: configs of the server, such as wal_level.
    """
    directory = programs()
    if directory is None:
        raise ServerError("PostgreSQL is not installed")
    # Not in the caller's directory: PostgreSQL's own user may not be allowed to enter it.
    with tempfile.TemporaryDirectory(prefix="postgresql-", dir="/tmp") as name:
        folder, owner, port = Path(name), owner_of_servers(Path(name), USER), free_port()
        data = folder / "data"
        execute([directory / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync"], owner)
        command: list[str | Path] = [
            directory / "postgres",
            "-D",
            data,
            "-p",
            str(port),
            "-h",
            "127.0.0.1",
            "-k",
            folder,
        ]
        for setting, value in (settings or {}).items():
            command += ["-c", f"{setting}={value}"]
        ready: list[str | Path] = [directory / "pg_isready", "-h", "127.0.0.1", "-p", str(port)]
        # SIGINT: without waiting for clients to close their connections.
        with serving(command, owner, ready, folder / "log", signal.SIGINT):
            yield f"postgresql://{USER}@127.0.0.1:{port}/postgres"


def owner_of_servers(folder: Path, user: str) -> str | None:
    """If the current user is root, make `user` the owner of the folder, and return it as the user that a server has to
    run as. Otherwise return None.
    """
    if os.geteuid() != 0:
        return None
    shutil.chown(folder, user)
    return user


def execute(command: Command, owner: str | None) -> None:
    """Run a command as the user `owner`, or as the current user if that is None. Raises ServerError if its exit code is
    not 0, and subprocess.TimeoutExpired after START_SECONDS.
    """
    env = _environment(owner)
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=START_SECONDS, user=owner, env=env)
    if done.returncode:
        raise ServerError(f"{command[0]} ended with {done.returncode}: {done.stdout}{done.stderr}")


def _environment(owner: str | None) -> dict[str, str] | None:
    """Return the environment of a program that runs as `owner`: without TMPDIR, where another user may not be allowed
    to write. Return None (the same environment) if `owner` is None.
    """
    return {name: value for name, value in os.environ.items() if name != "TMPDIR"} if owner else None


@contextlib.contextmanager
def serving(command: Command, owner: str | None, ready: Command, log: Path, end: signal.Signals) -> Iterator[None]:
    """Run a server in a separate process until the context exits. The command `ready` succeeds as soon as the server
    responds. Raises ServerError if the server does not start.
    """
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, cwd="/", user=owner, env=_environment(owner), preexec_fn=die_with_parent()
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while subprocess.run(ready, capture_output=True, user=owner, cwd="/").returncode:
            if process.poll() is not None or time.monotonic() > deadline:
                raise ServerError(f"{command[0]} did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        yield
    finally:
        process.send_signal(end)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
