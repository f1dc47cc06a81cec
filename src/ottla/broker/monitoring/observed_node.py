"""A broker, as its HTTP listener and its metrics reporters see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.broker.monitoring.scrape import MonitoredBroker


class ObservedNode(Protocol):
    """A broker, also before it is ready."""

    @property
    def failure(self) -> str:
        """The reason why the broker cannot continue; empty while it can."""
        ...

    @property
    def waits_for(self) -> str:
        """The cause if the broker waits, such as a ZooKeeper that does not answer; empty if it does not wait."""
        ...

    @property
    def monitored(self) -> MonitoredBroker | None:
        """The parts that metrics are read from; None before they are built."""
        ...
