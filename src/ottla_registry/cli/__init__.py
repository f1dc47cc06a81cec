"""The command `ottla schema-registry`."""

from __future__ import annotations

from typing import Final

from ottla.cli.main import CommandEntry

COMMANDS: Final = (
    CommandEntry(
        "schema-registry",
        "schema_registry",
        "serve a schema registry with Confluent's REST API",
        __name__,
    ),
)
"""The commands that this package adds to the entry point group `ottla.commands`."""
