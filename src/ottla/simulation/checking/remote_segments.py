"""The segments of tiered topics in the metadata of simulated brokers."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.server.broker_node import BrokerNode


def segments_in_metadata(nodes: Iterable[BrokerNode]) -> dict[str, str]:
    """Return the names of the states of segments by segment id, as they are in the partitions of
    `__remote_log_metadata` that brokers in `nodes` lead and that are ready.
    """
    states: dict[str, str] = {}
    for node in nodes:
        remote_log = node.context.remote_log
        for store in () if remote_log is None else remote_log.all_led_stores():
            states |= {str(segment.id): segment.state.name for segment in store.segments}
    return states
