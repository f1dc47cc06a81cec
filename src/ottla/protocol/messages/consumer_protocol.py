"""The "consumer" protocol: the data that members of a classic group exchange through JoinGroup and SyncGroup.

A subscription or an assignment is sent as bytes: a version of 2 bytes, then the message (`protocol.versioned` reads and
writes them). Readers ignore what a version newer than theirs has appended.

- version 1 adds the partitions that a member owns, for cooperative rebalancing (KIP-429)
- 2 adds the generation in which it was assigned them, so that stale claims are detected; 3 adds the member's rack
  (KIP-881)
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Data, Struct


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic: str = f.string("0+")
    partitions: list[int] = f.array(f.int32(), "0+")


class ConsumerProtocolSubscription(Data, versions="0-3"):
    """A member's subscription, and the partitions that it owns."""

    topics: list[str] = f.array(f.string(), "0+")
    user_data: bytes | None = f.binary("0+", nullable="0+", default=None)
    owned_partitions: list[TopicPartitions] = f.array(TopicPartitions, "1+", ignorable=True)
    generation_id: int = f.int32("2+", default=-1, ignorable=True)
    rack_id: str | None = f.string("3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Data, versions="0-3"):
    """The partitions that are assigned to a member."""

    assigned_partitions: list[TopicPartitions] = f.array(TopicPartitions, "0+")
    user_data: bytes | None = f.binary("0+", nullable="0+", default=None)
