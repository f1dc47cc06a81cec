"""What a kill leaves in a checkpoint that Spark then never takes again.

The offsets of a micro-batch are written to a temporary file, which is renamed. Where that was the first micro-batch,
and Spark was killed in between, every later start of the query fails with STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY
("should be empty on batch 0", SPARK-53103), although nothing was begun.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

log = logging.getLogger("ottla.spark")

OFFSETS = "offsets"


def remove_torn_starts(checkpoints: Path) -> list[Path]:
    """Remove offsets that were never renamed from all checkpoints in a directory in which no micro-batch was begun.

    Nobody may be at work there. Returns what was removed; a directory that is not there has nothing.
    """
    torn = [path for offsets in _offsets_in(checkpoints) for path in _never_renamed(list(offsets.iterdir()))]
    for path in torn:
        log.warning("removed %s: a killed query had left it behind", path)
        path.unlink()
    return torn


def _offsets_in(checkpoints: Path) -> Iterator[Path]:
    for directory, names, _ in os.walk(checkpoints):
        if OFFSETS in names:
            yield Path(directory) / OFFSETS
            names.clear()  # state has many files


def _never_renamed(files: list[Path]) -> list[Path]:
    begun = any(path.name.isdigit() for path in files)
    return [] if begun else [path for path in files if path.name.startswith(".")]
