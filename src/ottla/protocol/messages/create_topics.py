"""CreateTopics (key 19): create topics.

- version 1 can validate without creating, and adds messages to errors; 2 adds the throttle time
- 3 throttles only after the response (KIP-219); 4 takes -1 for the broker's default of partitions and replicas
- 5 is flexible and returns the topic's configs; 6 may answer THROTTLING_QUOTA_EXCEEDED; 7 adds topic ids
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class CreatableReplicaAssignment(Struct):
    """The brokers that get the replicas of one partition, the preferred leader first."""

    partition_index: int = f.int32("0+")
    broker_ids: list[int] = f.array(f.int32(), "0+")


class CreatableTopicConfig(Struct):
    """A config that the topic is to have."""

    name: str = f.string("0+")
    value: str | None = f.string("0+", nullable="0+")


class CreatableTopic(Struct):
    """One topic: the number of partitions and replicas, or an explicit assignment of all replicas."""

    name: str = f.string("0+")
    # -1 with assignments by hand, or (from version 4) for the default.
    num_partitions: int = f.int32("0+")
    # -1 with assignments by hand, or (from version 4) for the default.
    replication_factor: int = f.int16("0+")
    assignments: list[CreatableReplicaAssignment] = f.array(CreatableReplicaAssignment, "0+")
    configs: list[CreatableTopicConfig] = f.array(CreatableTopicConfig, "0+")


class CreateTopicsRequest(Request["CreateTopicsResponse"], api_key=19, versions="0-7", flexible="5+"):
    """The topics to create. With `validate_only`, the broker only checks them."""

    topics: list[CreatableTopic] = f.array(CreatableTopic, "0+")
    timeout_ms: int = f.int32("0+", default=60000)
    validate_only: bool = f.boolean("1+")


class CreatableTopicConfigs(Struct):
    """One config of the new topic."""

    name: str = f.string("5+")
    value: str | None = f.string("5+", nullable="5+")
    read_only: bool = f.boolean("5+")
    config_source: int = f.int8("5+", default=-1, ignorable=True)
    is_sensitive: bool = f.boolean("5+")


class CreatableTopicResult(Struct):
    """The outcome of one topic, with its configs."""

    name: str = f.string("0+")
    topic_id: UUID = f.uuid("7+", ignorable=True)
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("1+", nullable="0+", ignorable=True)
    topic_config_error_code: int = f.int16("5+", ignorable=True, tag=0)
    num_partitions: int = f.int32("5+", default=-1, ignorable=True)
    replication_factor: int = f.int16("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = f.array(CreatableTopicConfigs, "5+", nullable="5+", ignorable=True)


class CreateTopicsResponse(Response, api_key=19, versions="0-7", flexible="5+"):
    """The outcome of each topic."""

    throttle_time_ms: int = f.int32("2+", ignorable=True)
    topics: list[CreatableTopicResult] = f.array(CreatableTopicResult, "0+")
