"""Keys and values of the records of committed offsets and classic groups in `__consumer_offsets`.

Key and value begin with 2 bytes each (`protocol.versioned`). In a key they are the type of the record: 0 and 1 an
offset (0 is an older form), 2 a classic group. In a value they are its version. A record without a value deletes the
key.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Data, Struct

OFFSET_KEYS: Final = (0, 1)
"""Versions of the keys of committed offsets; 1 is written."""
GROUP_KEY: Final = 2
"""Version of the keys of group metadata."""


class OffsetCommitKey(Data, versions="0-1"):
    """Key of a committed offset."""

    group: str = f.string("0+")
    topic: str = f.string("0+")
    partition: int = f.int32("0+")


class OffsetCommitValue(Data, versions="0-4", flexible="4+"):
    """A committed offset.

    - version 1 has an expiry of its own, 2 leaves it to the broker; 3 adds the leader epoch;
      4 is flexible, with the topic id
    """

    offset: int = f.int64("0+")
    leader_epoch: int = f.int32("3+", default=-1, ignorable=True)
    metadata: str = f.string("0+")
    commit_timestamp: int = f.int64("0+")
    expire_timestamp: int = f.int64("1", default=-1, ignorable=True)
    topic_id: UUID = f.uuid("4+", ignorable=True, tag=0)


class GroupMetadataKey(Data, versions="0-2"):
    """Key of a group's metadata."""

    group: str = f.string("0+")


class MemberMetadata(Struct):
    """A member of the generation: its client, its timeouts in milliseconds, its subscription and its assignment."""

    member_id: str = f.string("0+")
    group_instance_id: str | None = f.string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = f.string("0+")
    client_host: str = f.string("0+")
    rebalance_timeout: int = f.int32("1+", default=-1, ignorable=True)
    session_timeout: int = f.int32("0+")
    subscription: bytes = f.binary("0+")
    assignment: bytes = f.binary("0+")


class GroupMetadataValue(Data, versions="0-4", flexible="4+"):
    """A generation of a classic group.

    - version 1 adds rebalance timeouts; 2 the time of the state; 3 static members; 4 is flexible
    """

    protocol_type: str = f.string("0+")
    generation: int = f.int32("0+")
    protocol: str | None = f.string("0+", nullable="0+")
    leader: str | None = f.string("0+", nullable="0+")
    current_state_timestamp: int = f.int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = f.array(MemberMetadata, "0+")
