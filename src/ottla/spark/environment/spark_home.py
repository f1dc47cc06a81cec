"""A SPARK_HOME whose Python processes start three times as fast, for Spark on one machine.

Spark puts `$SPARK_HOME/python/lib/pyspark.zip` first on the path of every Python process that it starts: workers, and
one for each look at a Python source. The zip has sources only, so each process compiles them again, a second of
processor time where the installed package takes a third of it. With a few at once on a busy machine that is longer than
the ten seconds that Spark gives a process to report. Here `pyspark.zip` is a link to where pyspark is installed.

Not for clusters: Spark sends the zip to YARN and Kubernetes, and there it has to be one.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import tempfile
from collections.abc import MutableMapping
from hashlib import sha256
from pathlib import Path

from ottla.errors import ConfigurationError
from ottla.java import cache_dir

log = logging.getLogger("ottla.spark")


def use_installed_pyspark(environ: MutableMapping[str, str] = os.environ) -> None:
    """Set SPARK_HOME for a session on this machine, unless it is set.

    Raises ConfigurationError if it is set to a Spark of another version than pyspark's.
    """
    if environ.get("SPARK_HOME"):
        from pyspark import __version__

        check_home(Path(environ["SPARK_HOME"]), __version__)
        return
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None or not (Path(spec.origin).parent / "jars").is_dir():
        return  # Without its JVM's half there is nothing to start.
    try:
        environ["SPARK_HOME"] = str(local_home(Path(spec.origin).parent, cache_dir(environ)))
    except OSError as error:
        log.info("Python processes of Spark start slowly: no links can be made in %s (%s)", cache_dir(environ), error)


def check_home(home: Path, version: str) -> None:
    """Raise ConfigurationError if a directory has another Spark; calls into it would fail with errors of Java."""
    jar = next(home.glob("jars/spark-core_*.jar"), None)
    installed = None if jar is None else jar.stem.partition("-")[2].partition("-")[2]
    if installed is None or installed.split(".")[:2] != version.split(".")[:2]:
        has = "has no Spark" if installed is None else f"is Spark {installed}"
        raise ConfigurationError(
            f"SPARK_HOME ({home}) {has}, and the pyspark of this Python is {version}: unset SPARK_HOME"
            + ("" if installed is None else f", or install pyspark=={installed}")
        )


def local_home(pyspark: Path, cache: Path) -> Path:
    """Return the directory, and create it if it is missing. Several processes may create it at the same time."""
    # The time: another version installed at the same place may have other files.
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
