"""PostgreSQL and MariaDB from Debian's packages, each started for a test with its own directory.

If `missing()` returns why one is not available, after trying to install it, tests skip. The servers refuse to run as
root, so root starts them as the user that the package has created.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ottla.net.ports import free_port
from ottla_pipelines.capture import local_postgresql
from ottla_pipelines.capture.local_postgresql import execute, owner_of_servers, serving
from scripts import debian

PACKAGES: Final = {"postgresql": "postgresql", "mysql": "mariadb-server"}
"""The scheme of the database's URL, and its package."""


def missing(kind: str) -> str | None:
    """Return why this database is not available on this machine, or None. The first call installs it."""
    if _program(kind) is None:
        debian.install(PACKAGES[kind])
    return None if _program(kind) is not None else f"apt-get could not install {PACKAGES[kind]} here"


@contextlib.contextmanager
def running(kind: str) -> Iterator[str]:
    """Run a new, empty database. Yield its URL."""
    if kind == "postgresql":
        with local_postgresql.running() as url:
            yield url
        return
    # Not in the caller's directory: the database's own user could not get there.
    with tempfile.TemporaryDirectory(prefix="mysql-", dir="/tmp") as folder, _mariadb(Path(folder)) as url:
        yield url


def _program(kind: str) -> Path | None:
    """Return the path of the server, which depends on its version."""
    if kind == "postgresql":
        return local_postgresql.programs()
    path = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    return Path(path) if path else None


@contextlib.contextmanager
def _mariadb(folder: Path) -> Iterator[str]:
    server = _program("mysql")
    assert server is not None
    owner = owner_of_servers(folder, "mysql")
    data, local, port = folder / "data", f"--socket={folder}/s", free_port()
    common = ["--no-defaults", f"--datadir={data}"]
    execute(["mariadb-install-db", *common, "--auth-root-authentication-method=normal", "--skip-test-db"], owner)
    options = [f"--port={port}", "--bind-address=127.0.0.1", local, f"--pid-file={folder}/pid", "--skip-name-resolve"]
    ready = ["mariadb-admin", "--no-defaults", local, "-u", "root", "ping"]
    with serving([server, *common, *options], owner, ready, folder / "log", signal.SIGTERM):
        execute(["mariadb", "--no-defaults", local, "-u", "root", "-e", MARIADB_USER], owner)
        yield f"mysql://ottla@127.0.0.1:{port}/ottla"


MARIADB_USER: Final = (
    "CREATE DATABASE ottla; CREATE USER 'ottla'@'127.0.0.1'; GRANT ALL ON ottla.* TO 'ottla'@'127.0.0.1'"
)
