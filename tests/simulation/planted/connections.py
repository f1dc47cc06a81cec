"""Bugs of the broker's connections."""

from __future__ import annotations

from typing import Any

from tests.simulation.planted.patching import patch

from ottla.net.server.connection import Connection


def ended_connections_stay_open() -> None:
    """If a client closes its connection, the broker stops reading, but does not close it."""

    def close(self: Any) -> None:
        self._stop_reading()

    patch(Connection, "close", close)


BUGS = (ended_connections_stay_open,)
