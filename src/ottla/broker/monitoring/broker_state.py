"""The state of a broker: Kafka's `BrokerState`."""

from __future__ import annotations

import enum


class BrokerState(enum.IntEnum):
    """The states of a broker, with Kafka's numbers, which are the values of the metric `BrokerState`."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
