"""Write what a Spark cluster has to be sent, for spark-submit's --archives.

  ottla spark-archive ottla.zip
  spark-submit --archives ottla.zip#ottla-env --conf spark.executorEnv.PYTHONPATH=./ottla-env ...

`ottla spark-submit` does both. docs/clusters.md has the commands for each kind of cluster.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("archive", type=Path, metavar="FILE.zip")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="what executors have already",
    )
    parser.add_argument(
        "--with", dest="more", action="append", default=[], metavar="PACKAGE", help="what the job needs besides"
    )


def run(args: argparse.Namespace) -> int:
    """Write it and tell what is in it; 1 with one line where it cannot be written."""
    from ottla.spark.archive import UNPACKED_AS, python_name, write_archive

    try:
        packages = write_archive(args.archive, args.without, args.more)
    except OSError as error:
        print(f"ottla spark-archive: {args.archive}: cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    size = args.archive.stat().st_size / 1e6
    print(f"{args.archive}: {size:.1f} MB, for {python_name()}: {', '.join(packages)}")
    print(f"--archives {args.archive}#{UNPACKED_AS} --conf spark.executorEnv.PYTHONPATH=./{UNPACKED_AS}")
    return 0
