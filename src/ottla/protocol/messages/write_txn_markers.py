"""WriteTxnMarkers (key 27): write markers, which end transactions, to partitions that the broker leads (KIP-98).

Transaction coordinators send it, and admin clients to abort a hanging transaction.

- version 1 is flexible;
  2 adds the transaction version, so that late markers can be detected (KIP-1228)
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class WritableTxnMarkerTopic(Struct):
    """The partitions of one topic."""

    name: str = f.string("0+")
    partition_indexes: list[int] = f.array(f.int32(), "0+")


class WritableTxnMarker(Struct):
    """One producer's transaction, and whether it is committed or aborted."""

    producer_id: int = f.int64("0+")
    producer_epoch: int = f.int16("0+")
    # True: committed; False: aborted.
    transaction_result: bool = f.boolean("0+")
    topics: list[WritableTxnMarkerTopic] = f.array(WritableTxnMarkerTopic, "0+")
    coordinator_epoch: int = f.int32("0+")
    transaction_version: int = f.int8("2+", ignorable=True)


class WriteTxnMarkersRequest(Request["WriteTxnMarkersResponse"], api_key=27, versions="0-2", flexible="1+"):
    """The transactions whose markers are to be written."""

    markers: list[WritableTxnMarker] = f.array(WritableTxnMarker, "0+")


class WritableTxnMarkerPartitionResult(Struct):
    """The outcome of one partition."""

    partition_index: int = f.int32("0+")
    error_code: int = f.int16("0+")


class WritableTxnMarkerTopicResult(Struct):
    """The outcomes of one topic's partitions."""

    name: str = f.string("0+")
    partitions: list[WritableTxnMarkerPartitionResult] = f.array(WritableTxnMarkerPartitionResult, "0+")


class WritableTxnMarkerResult(Struct):
    """The outcome of one transaction."""

    producer_id: int = f.int64("0+")
    topics: list[WritableTxnMarkerTopicResult] = f.array(WritableTxnMarkerTopicResult, "0+")


class WriteTxnMarkersResponse(Response, api_key=27, versions="0-2", flexible="1+"):
    """The outcome of each partition."""

    markers: list[WritableTxnMarkerResult] = f.array(WritableTxnMarkerResult, "0+")
