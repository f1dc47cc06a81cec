"""The state of a broker: Kafka's `BrokerState`."""

from __future__ import annotations

import enum


class BrokerState(enum.IntEnum):
    """Kafka's numbers, as the metric `BrokerState` has them."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
