"""Submit a job to a Spark cluster together with Ottla: spark-submit, with everything set that it needs.

  ottla spark-submit --master spark://host:7077 job.py arguments

All arguments go to spark-submit as they are. Ottla and its packages are packed once (see `ottla spark-archive`) and
shipped, so executors need nothing but the same Python, found as python3.X or as PYSPARK_PYTHON says.
OTTLA_SPARK_ARCHIVE names an archive that was made before.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ARCHIVE = "OTTLA_SPARK_ARCHIVE"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    # Nothing is an option of ours: all of them, but for a lone --help, are spark-submit's.
    parser.prefix_chars = ""
    parser.add_argument("arguments", nargs="*")
    parser.set_defaults(parser=parser)


def run(args: argparse.Namespace) -> int:
    """Run spark-submit; its exit code."""
    from ottla.spark.extras import needed

    if args.arguments in (["--help"], ["-h"]):
        args.parser.print_help()
        args.parser.exit()
    if not args.arguments:
        print(
            "ottla spark-submit: name a job: ottla spark-submit --master spark://host:7077 job.py",
            file=sys.stderr,
        )
        return 2
    with needed("spark-submit", extra="spark"):
        import pyspark
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    with archive(os.environ) as packed:
        command = [str(submit), *shipping(packed), *args.arguments]
        return subprocess.run(command, env=environment(os.environ, args.arguments), check=False).returncode


@contextmanager
def archive(environ: Mapping[str, str]) -> Iterator[str]:
    """The archive that was made before, or one that is made now and removed at the end."""
    from ottla.spark.archive import write_archive

    if environ.get(ARCHIVE):
        yield environ[ARCHIVE]  # a path or a URL
        return
    with tempfile.TemporaryDirectory(prefix="ottla-submit-") as folder:
        made = Path(folder) / "ottla.zip"
        write_archive(made)
        yield str(made)


def shipping(packed: str) -> list[str]:
    """What spark-submit has to be told. Before the user's own, which win."""
    from ottla.spark.archive import UNPACKED_AS

    return [
        *("--conf", f"spark.archives={packed}#{UNPACKED_AS}"),
        *("--conf", f"spark.executorEnv.PYTHONPATH=./{UNPACKED_AS}"),
        # A driver of YARN in cluster mode is unpacked for like an executor; elsewhere this is not looked at.
        *("--conf", f"spark.yarn.appMasterEnv.PYTHONPATH=./{UNPACKED_AS}"),
    ]


def environment(environ: Mapping[str, str], arguments: Sequence[str]) -> dict[str, str]:
    """The environment for it: a Java, this Python for the driver, the same version by name for executors."""
    from ottla.java import java_home
    from ottla.spark.archive import import_paths, python_name

    made = {**environ, "JAVA_HOME": str(java_home(environ))}
    if not _runs_in_the_cluster(arguments):
        made.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Spark plans in a Python of the executors' name, but on this machine; it must find Ottla here, too.
    made.setdefault("PYSPARK_PYTHON", python_name() if shutil.which(python_name()) else sys.executable)
    made["PYTHONPATH"] = os.pathsep.join([*import_paths(), *filter(None, [environ.get("PYTHONPATH")])])
    return made


def _runs_in_the_cluster(arguments: Sequence[str]) -> bool:
    """Whether the driver does: then our path to Python means nothing there."""
    pairs = itertools.pairwise(arguments)
    return ("--deploy-mode", "cluster") in pairs or any(
        argument in ("--deploy-mode=cluster", "spark.submit.deployMode=cluster") for argument in arguments
    )
