"""Fixtures of the pipelines' tests."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def postgresql_command(name: str) -> str | None:
    directories = [
        *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)),
        os.environ.get("PATH", ""),
    ]
    return shutil.which(name, path=os.pathsep.join(directories))


@pytest.fixture(scope="session")
def postgresql_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start PostgreSQL on a Unix socket in a temporary directory. Skip the test if it is not installed."""
    initdb, control = postgresql_command("initdb"), postgresql_command("pg_ctl")
    if not initdb or not control:
        pytest.skip("PostgreSQL is not installed")
    pytest.importorskip("psycopg")
    # The path of a socket may have about a hundred characters.
    home = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    as_user: list[str] = []
    if os.geteuid() == 0:
        if subprocess.run(["id", "postgres"], capture_output=True, check=False).returncode:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        shutil.chown(home, "postgres")
        as_user = ["runuser", "-u", "postgres", "--"]
    data = home / "data"
    quiet: dict[str, Any] = {"capture_output": True, "check": True, "cwd": home}
    try:
        subprocess.run([*as_user, initdb, "-D", data, "-A", "trust", "-U", "postgres", "-N"], **quiet)
        options = f"-k {home} -c listen_addresses= -c fsync=off"
        subprocess.run([*as_user, control, "-D", data, "-w", "-l", home / "log", "-o", options, "start"], **quiet)
        yield f"postgresql://postgres@/postgres?host={home}"
        subprocess.run([*as_user, control, "-D", data, "-m", "immediate", "stop"], **quiet)
    finally:
        shutil.rmtree(home, ignore_errors=True)
