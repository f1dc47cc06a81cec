"""The command `ottla tables`."""

from __future__ import annotations

from typing import Final

from ottla.cli.main import CommandEntry

COMMANDS: Final = (
    CommandEntry(
        "tables",
        "tables",
        "write topics to Iceberg, Delta or Parquet tables, and query them with SQL",
        __name__,
    ),
)
"""The commands that this package adds to the entry point group `ottla.commands`."""
