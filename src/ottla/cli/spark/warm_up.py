"""Make Spark sessions on this machine start faster: a cache of Spark's classes for Java 25 (190 MB in ~/.cache/ottla).

Needed once, and again after another Spark or Java is installed.
"""

from __future__ import annotations

import argparse
import time


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def run(args: argparse.Namespace) -> int:
    """Make it and tell where it lies."""
    from ottla.spark.aot import warm_up
    from ottla.spark.extras import needed

    began = time.monotonic()
    with needed("spark-warm-up", extra="spark"):
        file = warm_up()
    print(f"{file}: {file.stat().st_size / 1e6:.0f} MB after {time.monotonic() - began:.0f} s")
    return 0
