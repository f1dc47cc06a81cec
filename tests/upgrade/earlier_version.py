"""The source of an earlier version, which runs uncompiled."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EARLIER = "b5f85e5e"
"""The commit before tiered storage; a tag, once there is a release."""


def source_of_earlier_version(directory: Path) -> Path:
    """Unpack the source of the earlier version, and return the directory for PYTHONPATH."""
    command = ["git", "archive", EARLIER, "src/ottla", "src/pyspark_ottla.py", "src/pyspark_ottla_sql.py"]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"this shallow clone does not have the commit {EARLIER}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(directory, filter="data")
    return directory / "src"
