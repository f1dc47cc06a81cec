"""PostgreSQL and MariaDB from Debian's packages, each started for a test in a directory of its own.

`missing()` says why one cannot be had here, after trying to install it: tests then skip. The servers refuse to run as
root, so root starts them as the user that the package has made.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ottla.net.ports import free_port

START_SECONDS: Final = 60.0
PACKAGES: Final = {"postgresql": "postgresql", "mysql": "mariadb-server"}
"""The scheme of the database's URL, and its package."""


def missing(kind: str) -> str | None:
    """Why this database cannot be used on this machine, or None; installs it the first time."""
    if _program(kind) is None:
        _install(PACKAGES[kind])
    return None if _program(kind) is not None else f"apt-get could not install {PACKAGES[kind]} here"


@contextlib.contextmanager
def running(kind: str) -> Iterator[str]:
    """A new, empty database; its URL."""
    # Not in the caller's directory: the database's own user could not get there.
    with tempfile.TemporaryDirectory(prefix=f"{kind}-", dir="/tmp") as folder:
        make = {"postgresql": _postgresql, "mysql": _mariadb}[kind]
        with make(Path(folder)) as url:
            yield url


def _program(kind: str) -> Path | None:
    """The server, wherever Debian puts it."""
    if kind == "postgresql":
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
        return programs[-1] if programs else None
    path = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    return Path(path) if path else None


def _install(package: str) -> None:
    """Ask apt-get, one at a time: test runners in parallel would meet its lock."""
    if shutil.which("apt-get") is None:
        return
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with Path(tempfile.gettempdir(), "ottla-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", package]):
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run([*sudo, "apt-get", *command], env=quiet, capture_output=True, timeout=300)


@contextlib.contextmanager
def _postgresql(folder: Path) -> Iterator[str]:
    server = _program("postgresql")
    assert server is not None
    owner = _give_away(folder, "postgres")
    data, port = folder / "data", free_port()
    _run([server.with_name("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"], owner)
    command: list[str | Path] = [server, "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", folder]
    ready: list[str | Path] = [server.with_name("pg_isready"), "-h", "127.0.0.1", "-p", str(port)]
    # SIGINT: without waiting for the connections to be closed.
    with _serving(command, owner, ready, folder / "log", signal.SIGINT):
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"


@contextlib.contextmanager
def _mariadb(folder: Path) -> Iterator[str]:
    server = _program("mysql")
    assert server is not None
    owner = _give_away(folder, "mysql")
    data, local, port = folder / "data", f"--socket={folder}/s", free_port()
    common = ["--no-defaults", f"--datadir={data}"]
    _run(["mariadb-install-db", *common, "--auth-root-authentication-method=normal", "--skip-test-db"], owner)
    options = [f"--port={port}", "--bind-address=127.0.0.1", local, f"--pid-file={folder}/pid", "--skip-name-resolve"]
    ready = ["mariadb-admin", "--no-defaults", local, "-u", "root", "ping"]
    with _serving([server, *common, *options], owner, ready, folder / "log", signal.SIGTERM):
        _run(["mariadb", "--no-defaults", local, "-u", "root", "-e", MARIADB_USER], owner)
        yield f"mysql://ottla@127.0.0.1:{port}/ottla"


MARIADB_USER: Final = (
    "CREATE DATABASE ottla; CREATE USER 'ottla'@'127.0.0.1'; GRANT ALL ON ottla.* TO 'ottla'@'127.0.0.1'"
)


def _give_away(folder: Path, user: str) -> str | None:
    """Return the user that the server has to run as (None: the current one), after giving it the folder."""
    if os.geteuid() != 0:
        return None
    shutil.chown(folder, user)
    return user


def _environment(owner: str | None) -> dict[str, str] | None:
    """Return the environment of a program: another user may not be allowed to write where our temporary files are."""
    return {name: value for name, value in os.environ.items() if name != "TMPDIR"} if owner else None


def _run(command: Sequence[str | Path], owner: str | None) -> None:
    env = _environment(owner)
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=START_SECONDS, user=owner, env=env)
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stdout}{done.stderr}")


@contextlib.contextmanager
def _serving(
    command: Sequence[str | Path], owner: str | None, ready: Sequence[str | Path], log: Path, end: signal.Signals
) -> Iterator[None]:
    """A server in a process of its own, as soon as the command `ready` says that it serves."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd="/", user=owner, env=_environment(owner))
    try:
        deadline = time.monotonic() + START_SECONDS
        while subprocess.run(ready, capture_output=True, user=owner, cwd="/").returncode:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        yield
    finally:
        process.send_signal(end)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
