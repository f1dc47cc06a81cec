"""Make Spark sessions on this machine start faster: create a cache of the classes that Spark loads, for Java 25 or
later (190 MB, in ~/.cache/ottla by default).

Run it once, and after each upgrade of Spark or Java.
"""

from __future__ import annotations

import argparse
import subprocess
import time

from ottla.cli.framework.command import Command, CommandFailedError, not_installed


def run(args: argparse.Namespace) -> int:
    """Create the cache, and print its path, its size and the time that it took."""
    from ottla.spark.warm_up import warm_up

    started = time.monotonic()
    try:
        file = warm_up()
    except ModuleNotFoundError as error:
        raise not_installed("spark-warm-up", error, "spark") from None
    except subprocess.TimeoutExpired as error:
        raise CommandFailedError(f"ottla spark-warm-up: {error}") from None
    print(f"{file}: {file.stat().st_size / 1e6:.0f} MB after {time.monotonic() - started:.0f} s")
    return 0


COMMAND = Command(run=run)
