"""UpdateMetadata (key 6): the controller updates the metadata cache of every broker. Between brokers.

- version 1 adds an address per security protocol; 2 racks; 3 the names of listeners (KIP-103)
- 4 adds offline replicas; 5 groups the partitions by topic and carries the broker's epoch (KIP-380)
- 6 is flexible; 7 adds topic ids (KIP-516); 8 is also sent by a controller without ZooKeeper (KIP-866)
"""

from __future__ import annotations

import uuid

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class UpdateMetadataPartitionState(Struct):
    """The state of one partition. A leader of -2 means that the topic is being deleted."""

    topic_name: str = f.string("0-4", ignorable=True)
    partition_index: int = f.int32("0+")
    controller_epoch: int = f.int32("0+")
    leader: int = f.int32("0+")
    leader_epoch: int = f.int32("0+")
    isr: list[int] = f.array(f.int32(), "0+")
    zk_version: int = f.int32("0+")
    replicas: list[int] = f.array(f.int32(), "0+")
    offline_replicas: list[int] = f.array(f.int32(), "4+", ignorable=True)


class UpdateMetadataTopicState(Struct):
    """The partitions of one topic."""

    topic_name: str = f.string("5+")
    topic_id: uuid.UUID = f.uuid("7+", ignorable=True)
    partition_states: list[UpdateMetadataPartitionState] = f.array(UpdateMetadataPartitionState, "5+")


class UpdateMetadataEndpoint(Struct):
    """One address of a broker, with its security protocol, and from version 3 on its listener."""

    port: int = f.int32("1+")
    host: str = f.string("1+")
    listener: str = f.string("3+", ignorable=True)
    # 0: PLAINTEXT, 1: SSL, 2: SASL_PLAINTEXT, 3: SASL_SSL.
    security_protocol: int = f.int16("1+")


class UpdateMetadataBroker(Struct):
    """A live broker: its id, its addresses and its rack."""

    id: int = f.int32("0+")
    v0_host: str = f.string("0", ignorable=True)
    v0_port: int = f.int32("0", ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = f.array(UpdateMetadataEndpoint, "1+", ignorable=True)
    rack: str | None = f.string("2+", nullable="0+", ignorable=True)


class UpdateMetadataRequest(Request["UpdateMetadataResponse"], api_key=6, versions="0-8", flexible="6+"):
    """The states of partitions, and all live brokers."""

    controller_id: int = f.int32("0+")
    is_kraft_controller: bool = f.boolean("8+")
    # 0: unknown; 1: what has changed; 2: every partition of the cluster.
    type: int = f.int8("8+", tag=0)
    controller_epoch: int = f.int32("0+")
    broker_epoch: int = f.int64("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = f.array(UpdateMetadataPartitionState, "0-4")
    topic_states: list[UpdateMetadataTopicState] = f.array(UpdateMetadataTopicState, "5+")
    live_brokers: list[UpdateMetadataBroker] = f.array(UpdateMetadataBroker, "0+")


class UpdateMetadataResponse(Response, api_key=6, versions="0-8", flexible="6+"):
    """The error code; 0 if the broker has applied the request."""

    error_code: int = f.int16("0+")
