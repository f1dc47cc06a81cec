"""ControlledShutdown (key 7): a broker that shuts down lets the controller move its leaderships. Between brokers.

- version 0 has a header without a client id; 1 has the usual one; 2 carries the broker's epoch (KIP-380); 3 is flexible
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class ControlledShutdownRequest(Request["ControlledShutdownResponse"], api_key=7, versions="0-3", flexible="3+"):
    """The broker that is shutting down."""

    broker_id: int = f.int32("0+")
    broker_epoch: int = f.int64("2+", default=-1, ignorable=True)


class RemainingPartition(Struct):
    """A partition that the broker still leads."""

    topic_name: str = f.string("0+")
    partition_index: int = f.int32("0+")


class ControlledShutdownResponse(Response, api_key=7, versions="0-3", flexible="3+"):
    """The partitions with several replicas that the broker still leads."""

    error_code: int = f.int16("0+")
    remaining_partitions: list[RemainingPartition] = f.array(RemainingPartition, "0+")
