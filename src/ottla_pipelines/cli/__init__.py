"""The commands `ottla demo`, `ottla pipeline` and `ottla capture`."""

from __future__ import annotations

from typing import Final

from ottla.cli.main import CommandEntry

COMMANDS: Final = (
    CommandEntry("pipeline", "pipeline", "create, check and run declarative pipelines on Spark", __name__),
    CommandEntry(
        "capture",
        "capture",
        "send the changes of PostgreSQL tables to topics that have Iceberg, Delta or Parquet tables",
        __name__,
    ),
    CommandEntry(
        "demo",
        "demo",
        "stream a year of flights through a broker into Spark and check that every row is processed once",
        __name__,
    ),
)
"""The entries of this package in the entry point group `ottla.commands`."""
