"""Submit a job to a Spark cluster: run spark-submit with the settings that Ottla needs.

ottla spark-submit --master spark://host:7077 job.py arguments

All arguments except a lone --help or -h are passed to spark-submit unchanged. An archive with Ottla and the packages
that it needs is sent along (see `ottla spark-archive`). Executors therefore need only the same minor version of Python
on the same platform, as the command in PYSPARK_PYTHON (default: python3.X, if this machine has it). OTTLA_SPARK_ARCHIVE
may name an existing archive.
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

from ottla.cli.framework.command import Command, not_installed
from ottla.cli.framework.options import Option

ARCHIVE = "OTTLA_SPARK_ARCHIVE"


def _pass_all_arguments(parser: argparse.ArgumentParser) -> None:
    # No option is ours: all of them, except for a lone --help, are spark-submit's.
    parser.prefix_chars = ""
    parser.set_defaults(parser=parser)


def run(args: argparse.Namespace) -> int:
    """Run spark-submit, and return its exit code (negative if a signal ended it), or 2 if there are no arguments."""
    if args.arguments in (["--help"], ["-h"]):
        args.parser.print_help()
        args.parser.exit()
    if not args.arguments:
        print("ottla spark-submit: name a job: ottla spark-submit --master spark://host:7077 job.py", file=sys.stderr)
        return 2
    try:
        import pyspark
    except ModuleNotFoundError as error:
        raise not_installed("spark-submit", error, "spark") from None
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    with archive(os.environ) as packed:
        command = [str(submit), *shipping(packed), *args.arguments]
        return subprocess.run(command, env=environment(os.environ, args.arguments), check=False).returncode


@contextmanager
def archive(environ: Mapping[str, str]) -> Iterator[str]:
    """Context manager: return the value of OTTLA_SPARK_ARCHIVE, a path or URL, or the path of a new archive, which is
    removed at the end.
    """
    from ottla.spark.environment.archive import write_archive

    if environ.get(ARCHIVE):
        yield environ[ARCHIVE]  # a path or a URL
        return
    with tempfile.TemporaryDirectory(prefix="ottla-submit-") as folder:
        path = Path(folder) / "ottla.zip"
        write_archive(path)
        yield str(path)


def shipping(packed: str) -> list[str]:
    """Return the options of spark-submit that distribute the archive. They have to precede the user's options, which
    override them.
    """
    from ottla.spark.environment.archive import UNPACKED_AS

    return [
        *("--conf", f"spark.archives={packed}#{UNPACKED_AS}"),
        *("--conf", f"spark.executorEnv.PYTHONPATH=./{UNPACKED_AS}"),
        # For the driver in YARN's cluster mode, which unpacks archives like an executor; ignored elsewhere.
        *("--conf", f"spark.yarn.appMasterEnv.PYTHONPATH=./{UNPACKED_AS}"),
    ]


def environment(environ: Mapping[str, str], arguments: Sequence[str]) -> dict[str, str]:
    """Return the environment for spark-submit: JAVA_HOME, PYTHONPATH with Ottla, and, unless they are set, this Python
    for a driver on this machine and a Python of the same version for executors.
    """
    from ottla.java import java_home
    from ottla.spark.environment.archive import import_paths, python_name

    variables = {**environ, "JAVA_HOME": str(java_home(environ))}
    if not _runs_in_the_cluster(arguments):
        variables.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Spark plans on this machine in a Python of the executors' name, which must find Ottla here, too.
    variables.setdefault("PYSPARK_PYTHON", python_name() if shutil.which(python_name()) else sys.executable)
    variables["PYTHONPATH"] = os.pathsep.join([*import_paths(), *filter(None, [environ.get("PYTHONPATH")])])
    return variables


def _runs_in_the_cluster(arguments: Sequence[str]) -> bool:
    """Return whether the arguments let the driver run in the cluster, where the path of the local Python is not
    valid.
    """
    pairs = itertools.pairwise(arguments)
    return ("--deploy-mode", "cluster") in pairs or any(
        argument in ("--deploy-mode=cluster", "spark.submit.deployMode=cluster") for argument in arguments
    )


COMMAND = Command(
    run=run,
    configure=_pass_all_arguments,
    options=(Option("arguments", "options of spark-submit, the job file and its arguments", nargs="*"),),
)
