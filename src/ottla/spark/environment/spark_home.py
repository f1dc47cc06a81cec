"""A SPARK_HOME whose Python processes start three times as fast, for Spark on one machine.

Spark puts `$SPARK_HOME/python/lib/pyspark.zip` first on the import path of each Python process that it starts: workers,
and a process for each step of planning with a Python data source. The zip contains only sources, so each process
compiles them again. That takes a second of CPU time, three times as long as importing the installed package. If several
processes start on a busy machine, this can exceed the ten seconds after which Spark gives up. In this SPARK_HOME,
`pyspark.zip` is a link to the directory from which the installed package is imported.

It is not suitable for clusters: Spark sends the zip to YARN and Kubernetes, where it has to be a zip file.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import tempfile
from collections.abc import MutableMapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from ottla.errors import ConfigurationError
from ottla.java import cache_dir

log: Final = logging.getLogger("ottla.spark")


def use_installed_pyspark(environ: MutableMapping[str, str] = os.environ) -> None:
    """Set SPARK_HOME for sessions on this machine, unless it is set already. The variable stays unset if pyspark is not
    installed or has no jars, or if the links cannot be created.

    Raises ConfigurationError if it is set to a directory without Spark, or with another minor version of Spark than
    that of pyspark.
    """
    if environ.get("SPARK_HOME"):
        from pyspark import __version__

        check_home(Path(environ["SPARK_HOME"]), __version__)
        return
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None or not (Path(spec.origin).parent / "jars").is_dir():
        return  # This pyspark comes without Spark's jars, so it cannot start a session.
    try:
        environ["SPARK_HOME"] = str(local_home(Path(spec.origin).parent, cache_dir(environ)))
    except OSError as error:
        log.info("Cannot create links in %s, so Python processes of Spark start slowly: %s", cache_dir(environ), error)


def check_home(home: Path, version: str) -> None:
    """Raise ConfigurationError if a directory contains no Spark, or Spark of another minor version than `version`:
    calls would fail with errors of Java.
    """
    jar = next(home.glob("jars/spark-core_*.jar"), None)
    installed = None if jar is None else jar.stem.partition("-")[2].partition("-")[2]
    if installed is None or installed.split(".")[:2] != version.split(".")[:2]:
        has = "has no Spark" if installed is None else f"is Spark {installed}"
        raise ConfigurationError(
            f"SPARK_HOME ({home}) {has}, and the pyspark of this Python is {version}: unset SPARK_HOME"
            + ("" if installed is None else f", or install pyspark=={installed}")
        )


def local_home(pyspark: Path, cache: Path) -> Path:
    """Return the directory for SPARK_HOME. It is created if it does not exist; several processes may do so at the same
    time.
    """
    # The key contains the time, because another version that is installed at the same place may have other files.
    name = sha256(f"{pyspark}:{pyspark.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    home = cache / f"spark-home-{name}"
    if not home.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix="spark-home-", dir=cache))
        _link(pyspark, draft)
        try:
            draft.rename(home)
        except OSError:
            if not home.is_dir():
                raise
    return home


def _link(pyspark: Path, home: Path) -> None:
    for entry in pyspark.iterdir():
        if entry.name != "python":
            (home / entry.name).symlink_to(entry)
    lib = home / "python" / "lib"
    lib.mkdir(parents=True)
    for entry in (pyspark / "python" / "lib").glob("*.zip"):
        (lib / entry.name).symlink_to(pyspark.parent if entry.name == "pyspark.zip" else entry)
