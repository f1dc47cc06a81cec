"""Reads the metadata log of an Apache Kafka node (KRaft), when its log directory is imported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import singledispatchmethod
from pathlib import Path
from uuid import UUID

from ottla.cluster.store import config_entities
from ottla.errors import KafkaError, StartupError
from ottla.model import ACLOperation
from ottla.protocol.message import Data, decode
from ottla.protocol.messages import metadata_records as m
from ottla.protocol.wire import read_uvarint
from ottla.records.batch import split
from ottla.records.decoder import records
from ottla.security.acl import ACL, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

DIRECTORY = "__cluster_metadata-0"
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SCRAM = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
UNCHANGED = -2
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


@dataclass
class Topic:
    """A topic in Kafka's metadata, with its partitions by number."""

    name: str
    id: UUID
    partitions: dict[int, m.PartitionRecord] = field(default_factory=dict)


@dataclass
class Metadata:
    """The state at the end of the metadata log."""

    topics: dict[UUID, Topic] = field(default_factory=dict)
    topic_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    """The configs of entities other than topics, by path (see `config_entities`)."""
    next_producer_id: int = 0
    acls: dict[UUID, ACL] = field(default_factory=dict)

    @singledispatchmethod
    def replay(self, record: Data) -> None:
        """Apply a metadata record. Record types for which no method is registered are ignored."""

    @replay.register
    def _(self, record: m.TopicRecord) -> None:
        self.topics[record.topic_id] = Topic(record.name, record.topic_id)

    @replay.register
    def _(self, record: m.RemoveTopicRecord) -> None:
        removed = self.topics.pop(record.topic_id, None)
        if removed is not None:
            self.topic_configs.pop(removed.name, None)

    @replay.register
    def _(self, record: m.PartitionRecord) -> None:
        self.topics[record.topic_id].partitions[record.partition_id] = record

    @replay.register
    def _(self, record: m.PartitionChangeRecord) -> None:
        partition = self.topics[record.topic_id].partitions[record.partition_id]
        if record.isr is not None:
            partition.isr = record.isr
        if record.replicas is not None:
            partition.replicas = record.replicas
        if record.eligible_leader_replicas is not None:
            partition.eligible_leader_replicas = record.eligible_leader_replicas
        if record.last_known_elr is not None:
            partition.last_known_elr = record.last_known_elr
        if record.leader != UNCHANGED:
            partition.leader = record.leader
            partition.leader_epoch += 1

    @replay.register
    def _(self, record: m.ConfigRecord) -> None:
        name = record.resource_name
        kinds = {
            BROKER: config_entities.BROKERS,
            CLIENT_METRICS: config_entities.CLIENT_METRICS,
            GROUP: config_entities.GROUPS,
        }
        if record.resource_type == TOPIC:
            _set(self.topic_configs, name, record.name, record.value)
        elif record.resource_type in kinds:
            path = config_entities.entity(kinds[record.resource_type], name or None)
            _set(self.configs, path, record.name, record.value)

    @replay.register
    def _(self, record: m.ClientQuotaRecord) -> None:
        parts = {part.entity_type: part.entity_name for part in record.entity}
        value = f"{record.value:.0f}" if record.value.is_integer() else str(record.value)
        path = config_entities.quota_path(parts)
        if path is not None:
            _set(self.configs, path, record.key, None if record.remove else value)

    @replay.register
    def _(self, record: m.UserScramCredentialRecord) -> None:
        credential = config_entities.scram_value(record.salt, record.stored_key, record.server_key, record.iterations)
        _set(
            self.configs,
            config_entities.entity(config_entities.USERS, record.name),
            SCRAM[record.mechanism],
            credential,
        )

    @replay.register
    def _(self, record: m.RemoveUserScramCredentialRecord) -> None:
        _set(self.configs, config_entities.entity(config_entities.USERS, record.name), SCRAM[record.mechanism], None)

    @replay.register
    def _(self, record: m.AccessControlEntryRecord) -> None:
        how = ACLResourcePatternType(record.pattern_type)
        pattern = ResourcePattern(ResourceType(record.resource_type), record.resource_name, how)
        principal_and_host, operation = (record.principal, record.host), ACLOperation(record.operation)
        self.acls[record.id] = ACL(*principal_and_host, operation, ACLPermissionType(record.permission_type), pattern)

    @replay.register
    def _(self, record: m.RemoveAccessControlEntryRecord) -> None:
        self.acls.pop(record.id, None)

    @replay.register
    def _(self, record: m.ProducerIdsRecord) -> None:
        self.next_producer_id = max(self.next_producer_id, record.next_producer_id)


def read(directory: Path) -> Metadata:
    """Return the metadata in the newest snapshot of a directory, if there is one, and in the log after it. Raises
    StartupError if they cannot be read.
    """
    metadata = Metadata()
    held: list[Data] | None = None  # records of a metadata transaction that has not ended yet
    try:
        for record in _records(directory):
            if isinstance(record, m.BeginTransactionRecord):
                held = []
            elif isinstance(record, (m.EndTransactionRecord, m.AbortTransactionRecord)):
                for waiting in (held or ()) if isinstance(record, m.EndTransactionRecord) else ():
                    metadata.replay(waiting)
                held = None
            elif held is not None:
                held.append(record)
            else:
                metadata.replay(record)
    except (KafkaError, OSError, KeyError, IndexError, ValueError) as error:
        raise StartupError(f"log.dirs: {directory}: cannot read Apache Kafka's metadata: {error}") from error
    return metadata


def _records(directory: Path) -> Iterator[Data]:
    snapshots = sorted(path for path in directory.iterdir() if _SNAPSHOT.fullmatch(path.name))
    start = 0
    if snapshots:
        start = int(snapshots[-1].name[:20])
        yield from _records_in(snapshots[-1], 0)
    segments = sorted(directory.glob("*.log"))
    for path, next_segment in zip(segments, [*segments[1:], None], strict=True):
        if next_segment is None or int(next_segment.stem) > start:
            yield from _records_in(path, start)


def _records_in(path: Path, start: int) -> Iterator[Data]:
    data = memoryview(path.read_bytes())
    for header, begin, end in split(data):
        if header.is_control:
            continue
        for record in records(data, begin, end):
            if record.offset >= start and record.value is not None:
                message = _decoded(record.value)
                if message is not None:
                    yield message


def _decoded(value: bytes) -> Data | None:
    view = memoryview(value)
    _frame_version, pos = read_uvarint(view, 0)
    kind, pos = read_uvarint(view, pos)
    version, pos = read_uvarint(view, pos)
    cls = m.RECORDS.get(kind)
    return None if cls is None else decode(cls, view, min(version, cls.VERSIONS.stop - 1), pos)


def _set(by_owner: dict[str, dict[str, str]], owner: str, name: str, value: str | None) -> None:
    configs = by_owner.setdefault(owner, {})
    if value is None:
        configs.pop(name, None)
    else:
        configs[name] = value
