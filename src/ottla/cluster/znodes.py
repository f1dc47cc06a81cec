"""Every path in the registry and the JSON kept there, as Kafka 0.8 to 3.9 lay them out in ZooKeeper."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from ottla.cluster import entities

BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CLUSTER_ID: Final = "/cluster/id"
CONFIG_TOPICS: Final = "/config/topics"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
PRODUCER_ID_BLOCK_SIZE: Final = 1000
DELETE_TOPICS: Final = "/admin/delete_topics"
CONSUMERS: Final = "/consumers"
FEATURE: Final = "/feature"

PERSISTENT: Final = (
    "/admin",
    DELETE_TOPICS,
    "/brokers",
    BROKER_IDS,
    TOPICS,
    "/brokers/seqid",
    "/cluster",
    "/config",
    *(f"/config/{kind}" for kind in entities.TYPES),
    "/config/changes",
    CONFIG_TOPICS,
    CONSUMERS,
    "/isr_change_notification",
    "/log_dir_event_notification",
)
"""Nodes that exist in every cluster, parents before their children."""


def broker(broker_id: int) -> str:
    """A live broker."""
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    """A topic's replica assignment."""
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    """The parent of a topic's partitions."""
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, index: int) -> str:
    """The parent of a partition's state."""
    return f"{TOPICS}/{name}/partitions/{index}"


def partition_state(name: str, index: int) -> str:
    """Who leads a partition, and who is in sync."""
    return f"{TOPICS}/{name}/partitions/{index}/state"


def config_topic(name: str) -> str:
    """Options set on a topic."""
    return f"{CONFIG_TOPICS}/{name}"


def config_entity(path: str) -> str:
    """Options set on anything else: see `entities`."""
    return f"/config/{path}"


def consumer_offset(group: str, name: str, index: int) -> str:
    """How far a group of 0.8 has read a partition."""
    return f"{CONSUMERS}/{group}/offsets/{name}/{index}"


def dump(value: Mapping[str, Any]) -> bytes:
    """JSON as Kafka writes it: no blanks."""
    return json.dumps(value, separators=(",", ":")).encode()


def load(raw: bytes) -> dict[str, Any]:
    """The JSON of a node."""
    value: dict[str, Any] = json.loads(raw)
    return value


def topic_value(topic_id: UUID, assignment: Sequence[Sequence[int]]) -> bytes:
    """`/brokers/topics/T`."""
    return dump(
        {
            "removing_replicas": {},
            "partitions": {str(p): list(replicas) for p, replicas in enumerate(assignment)},
            "topic_id": uuid_text(topic_id),
            "adding_replicas": {},
            "version": 3,
        }
    )


def state_value(controller_epoch: int, leader: int, leader_epoch: int, isr: Sequence[int]) -> bytes:
    """`/brokers/topics/T/partitions/P/state`."""
    return dump(
        {
            "controller_epoch": controller_epoch,
            "leader": leader,
            "version": 1,
            "leader_epoch": leader_epoch,
            "isr": list(isr),
        }
    )


def producer_ids_value(broker_id: int, end: int) -> bytes:
    """`/latest_producer_id_block`: the block that was taken last, of which the last id comes before `end`."""
    start = max(0, end - PRODUCER_ID_BLOCK_SIZE)
    return dump({"version": 1, "broker": broker_id, "block_start": str(start), "block_end": str(end - 1)})


def config_value(options: Mapping[str, str]) -> bytes:
    """`/config/topics/T` and its siblings."""
    return dump({"version": 1, "config": dict(options)})


def feature_value(levels: Mapping[str, int]) -> bytes:
    """`/feature`."""
    found = {name: {"max_version_level": level} for name, level in levels.items()}
    return dump({"version": 2, "status": 1, "features": found})


def feature_levels(raw: bytes) -> dict[str, int]:
    """The levels in `/feature`."""
    return {name: int(level["max_version_level"]) for name, level in load(raw)["features"].items()}


def uuid_text(value: UUID) -> str:
    """An id as Kafka writes it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def uuid_of(text: str) -> UUID:
    """The reverse of `uuid_text`."""
    return UUID(bytes=base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
