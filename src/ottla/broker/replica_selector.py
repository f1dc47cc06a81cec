"""The choice of the replica that a consumer should read from: one in its rack, if possible (KIP-392)."""

from __future__ import annotations

from ottla.broker.broker_context import BrokerContext
from ottla.config.broker.log_config import RACK_AWARE
from ottla.replication.partition import Partition

NONE = -1
"""The value in a response that lets the consumer continue to read from this broker."""


def preferred_read_replica(broker: BrokerContext, partition: Partition, rack: str, offset: int) -> int:
    """Return the id of the most caught-up in-sync follower in the consumer's rack whose log contains the offset or ends
    there; -1 if the consumer should continue to read from this broker.
    """
    if not rack or broker.config.replica_selector_class != RACK_AWARE:
        return NONE
    brokers = broker.image.brokers
    own = brokers.get(broker.broker_id)
    if own is not None and own.rack == rack:
        return NONE
    near = [
        r
        for r in partition.leader_replica.preferred_candidates(offset)
        if (node := brokers.get(r.id)) is not None and node.rack == rack
    ]
    return max(near, key=lambda r: (r.log_end, r.caught_up_at)).id if near else NONE
