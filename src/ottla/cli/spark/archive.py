"""Write an archive with Ottla and the packages that it needs, for the executors of a Spark cluster.

  ottla spark-archive ottla.zip
  spark-submit --archives ottla.zip#ottla-env --conf spark.executorEnv.PYTHONPATH=./ottla-env ...

`ottla spark-submit` does both steps. The commands for each kind of cluster are in docs/clusters.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ottla.cli.framework.command import Command
from ottla.cli.framework.options import Option, Repeatable


def run(args: argparse.Namespace) -> int:
    """Write the archive, and print its packages and the options of spark-submit that use it. Return 1 if it cannot be
    written.
    """
    from ottla.spark.environment.archive import UNPACKED_AS, python_name, write_archive

    try:
        packages = write_archive(args.archive, args.without, args.more)
    except OSError as error:
        print(f"ottla spark-archive: {args.archive}: cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    size = args.archive.stat().st_size / 1e6
    print(f"{args.archive}: {size:.1f} MB, for {python_name()}: {', '.join(packages)}")
    print(f"--archives {args.archive}#{UNPACKED_AS} --conf spark.executorEnv.PYTHONPATH=./{UNPACKED_AS}")
    return 0


COMMAND = Command(
    run=run,
    options=(
        Option("archive FILE.zip", "path of the archive to write", Path),
        Repeatable(
            "--without PACKAGE",
            "package that the executors already have: it is left out, with dependencies that no other package needs",
        ),
        Repeatable(
            "--with PACKAGE",
            "further installed package that the job needs, which is added with its dependencies",
            dest="more",
        ),
    ),
)
