"""Repair of checkpoints from which Spark refuses to restart a query that was killed.

Spark writes the offsets of a micro-batch to a temporary file, and then renames it. If Spark is killed in between, at
the first micro-batch, every later start of the query fails with STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY ("should be
empty on batch 0", SPARK-53103), although no micro-batch was started.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

log: Final = logging.getLogger("ottla.spark")

OFFSETS = "offsets"


def remove_torn_starts(checkpoints: Path) -> list[Path]:
    """Search a directory tree for checkpoints without a started micro-batch, and delete their temporary offset files.
    Return the paths of the deleted files.

    No query may be using the checkpoints. A directory that does not exist is ignored.
    """
    torn = [path for offsets in _offsets_in(checkpoints) for path in _never_renamed(list(offsets.iterdir()))]
    for path in torn:
        log.warning(
            "Deleting %s, a temporary offset file of a query that ended before its first micro-batch: Spark does not "
            "restart the query while the file exists",
            path,
        )
        path.unlink()
    return torn


def _offsets_in(checkpoints: Path) -> Iterator[Path]:
    for directory, names, _ in os.walk(checkpoints):
        if OFFSETS in names:
            yield Path(directory) / OFFSETS
            names.clear()  # state directories have many files


def _never_renamed(files: list[Path]) -> list[Path]:
    begun = any(path.name.isdigit() for path in files)
    return [] if begun else [path for path in files if path.name.startswith(".")]
