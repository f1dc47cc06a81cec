"""The interface of a broker that its HTTP listener and its metrics reporters use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.broker.monitoring.scrape import MonitoredBroker


class ObservedNode(Protocol):
    """A broker that is starting, running or stopping."""

    @property
    def failure(self) -> str:
        """The reason why the broker cannot continue; empty if it can."""
        ...

    @property
    def waits_for(self) -> str:
        """The reason why the broker waits for the metadata store, such as a ZooKeeper that does not answer; empty if it
        does not wait.
        """
        ...

    @property
    def stage(self) -> str:
        """The stage of the start or the shutdown, such as loading the logs; empty while the broker runs."""
        ...

    @property
    def monitored(self) -> MonitoredBroker | None:
        """The parts that metrics are read from; None until the broker has created them and loaded its logs."""
        ...
