"""Choice between the two forms of the hot path: compiled, or plain source."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType

log = logging.getLogger("ottla.records")

MODULES = (
    "varint",
    "scanner",
    "murmur2",
    "builder",
    "appender",
    "decoder",
    "consumer_record",
    "column_decoder",
    "validator",
)
"""The modules that `setup.py` compiles."""


class SourceFinder:
    """Finds the `.py` of the hot path's modules before the import system sees the `.so` beside it."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a hot module's source, or None for every other module."""
        package, _, module = name.rpartition(".")
        if package != __package__ or module not in MODULES:
            return None
        source = str(Path(__file__).with_name(f"{module}.py"))
        return importlib.util.spec_from_file_location(name, source, loader=SourceFileLoader(name, source))


def prefer_source() -> None:
    """Import the plain form of the modules from now on, even if a compiled one exists (OTTLA_PURE=1)."""
    if SourceFinder not in sys.meta_path:
        sys.meta_path.insert(0, SourceFinder)


def warn_plain() -> None:
    """Warn that the plain form is slow, unless OTTLA_PURE requests it. Called once, by the plain form of `varint`."""
    if not os.environ.get("OTTLA_PURE"):
        log.warning(
            "Ottla's code for records is not compiled, so encoding and decoding are about 15 times slower. Install a C "
            "compiler, and reinstall Ottla; OTTLA_PURE=1 silences this warning."
        )
