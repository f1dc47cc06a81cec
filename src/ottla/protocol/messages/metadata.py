"""Metadata (key 3): the brokers of the cluster, its topics, and the leader of each partition.

Clients send it after ApiVersions, and again periodically, and when a leader has moved. A request for an unknown topic
may create it.

- version 0 takes an empty list of topics for all of them; from 1 on None means all and an empty list means none
- 1 adds the controller, racks and whether a topic is internal; 2 the cluster id; 3 the throttle time
- 4 lets the client forbid the creation of topics; 5 adds offline replicas; 7 leader epochs
- 8 adds permitted operations on request, 9 is flexible, 10 adds topic ids
- 11 moves the operations on the cluster to DescribeCluster; 12 selects topics by id; 13 adds an error for the whole
  request
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class MetadataRequestTopic(Struct):
    """One topic, by name or (from version 12) by id."""

    topic_id: UUID = f.uuid("10+", ignorable=True)
    name: str | None = f.string("0+", nullable="10+")


class MetadataRequest(Request["MetadataResponse"], api_key=3, versions="0-13", flexible="9+"):
    """The topics to describe, and whether missing ones may be created."""

    # None for all topics (version 0: an empty list).
    topics: list[MetadataRequestTopic] | None = f.array(MetadataRequestTopic, "0+", nullable="1+")
    allow_auto_topic_creation: bool = f.boolean("4+", default=True)
    include_cluster_authorized_operations: bool = f.boolean("8-10")
    include_topic_authorized_operations: bool = f.boolean("8+")


class MetadataResponseBroker(Struct):
    """One broker and its address for clients."""

    node_id: int = f.int32("0+")
    host: str = f.string("0+")
    port: int = f.int32("0+")
    rack: str | None = f.string("1+", nullable="1+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    """One partition: its leader and replicas."""

    error_code: int = f.int16("0+")
    partition_index: int = f.int32("0+")
    # -1 if there is none at the moment.
    leader_id: int = f.int32("0+")
    leader_epoch: int = f.int32("7+", default=-1, ignorable=True)
    # The preferred leader comes first.
    replica_nodes: list[int] = f.array(f.int32(), "0+")
    isr_nodes: list[int] = f.array(f.int32(), "0+")
    offline_replicas: list[int] = f.array(f.int32(), "5+", ignorable=True)


class MetadataResponseTopic(Struct):
    """One topic with its partitions."""

    error_code: int = f.int16("0+")
    name: str | None = f.string("0+", nullable="12+")
    topic_id: UUID = f.uuid("10+", ignorable=True)
    is_internal: bool = f.boolean("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = f.array(MetadataResponsePartition, "0+")
    # A bit per authorized operation; the smallest number if the operations were not requested.
    topic_authorized_operations: int = f.int32("8+", default=-0x8000_0000)


class MetadataResponse(Response, api_key=3, versions="0-13", flexible="9+"):
    """The cluster as the broker sees it."""

    throttle_time_ms: int = f.int32("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = f.array(MetadataResponseBroker, "0+")
    cluster_id: str | None = f.string("2+", nullable="2+", default=None, ignorable=True)
    # -1 if there is none at the moment.
    controller_id: int = f.int32("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = f.array(MetadataResponseTopic, "0+")
    cluster_authorized_operations: int = f.int32("8-10", default=-0x8000_0000)
    error_code: int = f.int16("13+", ignorable=True)
