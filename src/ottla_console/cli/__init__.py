"""The commands `ottla console` and `ottla top`."""

from __future__ import annotations

from typing import Final

from ottla.cli.main import CommandEntry

COMMANDS: Final = (
    CommandEntry("console", "console", "serve a web console for a cluster of Ottla or Apache Kafka", __name__),
    CommandEntry("top", "top", "show brokers, topics by rate and groups by lag in the terminal", __name__),
)
"""The entries of this package in the entry point group `ottla.commands`."""
