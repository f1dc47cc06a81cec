"""Import of log directories of Apache Kafka: writes topics and other metadata to an empty metadata store.

A node without ZooKeeper (KRaft) has its metadata beside its logs: topics, configs with quotas and SCRAM credentials,
ACLs, and the next producer id. A node with ZooKeeper has only the logs: topics, partitions and ids are taken from their
directories, and the configs of topics that are not internal have their defaults, unless the metadata was imported
before (`ottla metadata import`).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ottla.cluster.image.store_reader import create_persistent_nodes
from ottla.cluster.store import config_entities, znodes
from ottla.cluster.store.metadata_store import Create, MetadataStore, Operation, Set
from ottla.errors import StartupError
from ottla.model import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from ottla.security.acl import ACL, ACLPermissionType, ResourcePattern
from ottla.storage.checkpoints import LEADER_EPOCHS
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.log_dir import LogDir
from ottla.storage.partition_metadata import read_topic_id

if TYPE_CHECKING:
    from ottla.cluster.migration import kraft
    from ottla.protocol.messages.metadata_records import PartitionRecord

log = logging.getLogger("ottla.cluster")

INTERNAL_CONFIGS: Mapping[str, Mapping[str, str]] = {
    CONSUMER_OFFSETS: {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"},
    TRANSACTION_STATE: {"cleanup.policy": "compact", "compression.type": "uncompressed", "segment.bytes": "104857600"},
}
"""Configs that Kafka sets for internal topics. Without them, the logs would not be compacted but deleted by age."""


class _Partition(NamedTuple):
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class _Topic(NamedTuple):
    id: uuid.UUID
    partitions: Sequence[_Partition]
    configs: Mapping[str, str]


async def import_log_dirs(store: MetadataStore, log_dirs: Sequence[LogDir], broker_id: int) -> int:
    """Import the log directories into a metadata store that has never been used.

    Return the number of imported topics; 0 if the store has been used or the directories contain no logs. Raises
    StartupError if the metadata of a KRaft node cannot be read, or one of its ACLs that deny access cannot be stored.
    """
    if await store.get(znodes.CONTROLLER_EPOCH) is not None:
        return 0
    if await store.children(znodes.TOPICS):
        return 0  # the topics were imported by a start that failed later
    logs = {tp: path for log_dir in log_dirs for tp, path in log_dir.partitions()}
    if not logs:
        return 0
    from ottla.cluster.migration import kraft  # every standalone broker runs this, but few have a directory to import

    candidates = (log_dir.path / kraft.DIRECTORY for log_dir in log_dirs)
    metadata = next((path for path in candidates if path.is_dir()), None)
    operations: list[Operation] = []
    if metadata is not None:
        metadata_records = kraft.read(metadata)
        topics = _of_controller(metadata_records)
        for path, configs in _with_parents(metadata_records.configs):
            operations.append(Create(znodes.config_entity(path), znodes.config_value(configs)))
        if metadata_records.next_producer_id:
            block = znodes.producer_ids_value(broker_id, metadata_records.next_producer_id)
            operations.append(Set(znodes.PRODUCER_ID_BLOCK, block))
        operations += _acl_operations(metadata_records.acls.values())
    else:
        topics = _of_directories(logs, broker_id)
    for name, topic in topics.items():
        operations += _operations(name, topic)
    await create_persistent_nodes(store)
    await store.multi(operations)
    log.warning(
        "Imported topics into the new metadata store from %s: topics=%d",
        metadata or "the names of the logs' directories",
        len(topics),
    )
    return len(topics)


def _of_controller(metadata: kraft.Metadata) -> dict[str, _Topic]:
    return {
        topic.name: _Topic(
            topic.id,
            [
                _Partition(p.leader, p.leader_epoch, tuple(p.replicas), _in_sync(p))
                for _, p in sorted(topic.partitions.items())
            ],
            metadata.topic_configs.get(topic.name, {}),
        )
        for topic in metadata.topics.values()
    }


def _in_sync(partition: PartitionRecord) -> tuple[int, ...]:
    """Return the ISR; if it is empty, the eligible leader replicas (ELR, KIP-966); if these are empty too, the last
    known ELR.
    """
    p = partition
    return tuple(p.isr or p.eligible_leader_replicas or p.last_known_elr or ())


def _of_directories(logs: Mapping[TopicPartition, Path], broker_id: int) -> dict[str, _Topic]:
    by_topic: dict[str, dict[int, Path]] = {}
    for tp, path in logs.items():
        by_topic.setdefault(tp.topic, {})[tp.partition] = path
    topics = {}
    for name, paths in by_topic.items():
        ids = {read_topic_id(path) for path in paths.values()} - {None}
        topic_id = znodes.uuid_of(min(filter(None, ids))) if ids else uuid.uuid4()
        partitions = [
            _Partition(broker_id, _latest_epoch(paths.get(index)), (broker_id,), (broker_id,))
            for index in range(max(paths) + 1)
        ]
        topics[name] = _Topic(topic_id, partitions, INTERNAL_CONFIGS.get(name, {}))
    return topics


def _latest_epoch(path: Path | None) -> int:
    if path is None or not (path / LEADER_EPOCHS).exists():
        return 0
    epochs = LeaderEpochs(path / LEADER_EPOCHS)
    epochs.load()
    return max(0, epochs.latest)


def _operations(name: str, topic: _Topic) -> list[Operation]:
    operations: list[Operation] = [
        Create(znodes.topic(name), znodes.topic_value(topic.id, [p.replicas for p in topic.partitions])),
        Create(znodes.partitions(name)),
    ]
    if topic.configs:
        operations.append(Create(znodes.config_topic(name), znodes.config_value(topic.configs)))
    for index, p in enumerate(topic.partitions):
        state = znodes.state_value(0, p.leader, p.leader_epoch, p.isr)
        operations += [Create(znodes.partition(name, index)), Create(znodes.partition_state(name, index), state)]
    return operations


def _acl_operations(acls: Iterable[ACL]) -> list[Operation]:
    """Return the operations that create the znodes of ACLs.

    An ACL that cannot be stored is logged and skipped if it allows access; if it denies access, raise StartupError.
    """
    by_pattern: dict[ResourcePattern, list[ACL]] = {}
    for acl in acls:
        if znodes.is_valid_name(acl.resource_pattern.resource_name):
            by_pattern.setdefault(acl.resource_pattern, []).append(acl)
        elif acl.permission_type is ACLPermissionType.ALLOW:
            log.error(
                "Not importing the ACL %s, so it allows no access: a znode cannot have the name of its resource", acl
            )
        else:
            raise StartupError(
                f"log.dirs: {acl} cannot be stored, because a znode cannot have the resource's name; remove it first"
            )
    if not by_pattern:
        return []
    nodes = dict.fromkeys(znodes.ACL_NODES, b"")
    for pattern, rules in sorted(by_pattern.items()):
        path = znodes.acls(pattern)
        nodes |= {path.rpartition("/")[0]: b"", path: znodes.acls_value(rules)}
    return [Create(path, value) for path, value in nodes.items()]


def _with_parents(configs: Mapping[str, Mapping[str, str]]) -> list[tuple[str, Mapping[str, str]]]:
    """Return the entities that have configs, and the parents of a user's clients, in the order in which their znodes
    have to be created.
    """
    configured = {path: set_ for path, set_ in configs.items() if set_}
    for path in list(configured):
        user, nested, _ = path.partition(config_entities.NESTED + "/")
        if nested:
            configured.setdefault(user, {})
            configured.setdefault(user + config_entities.NESTED, {})
    return sorted(configured.items())
