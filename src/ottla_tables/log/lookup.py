"""Lookup of topics with their table configs, and of their partitions' leaders, offsets and directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.configs import TOPIC, ConfigResource
from ottla.client.admin.topics.offsets import IsolationLevel
from ottla.config.topic import NO_TABLE, TableConfig
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla_tables.errors import TableError

PREFIX: Final = "ottla.table."
TABLES_DIRECTORY: Final = "tables"
EARLIEST: Final = -2
LATEST: Final = -1


class TableTopic(NamedTuple):
    """A topic, with its ottla.table.* configs."""

    name: str
    topic_id: UUID
    config: TableConfig


class Leader(NamedTuple):
    """The leader of a partition. The epoch changes with every election."""

    broker_id: int
    epoch: int


class Lookup:
    """Looks up topics, leaders, offsets and directories with an admin client."""

    def __init__(self, admin: KafkaAdminClient) -> None:
        self._admin = admin

    def names(self) -> list[str]:
        """Return the names of the topics, including internal ones."""
        return self._admin.list_topics()

    def topics(self, names: Iterable[str] | None = None, *, all_formats: bool = False) -> list[TableTopic]:
        """Return the topics among `names` (None: all topics) whose ottla.table.format is not `none`. With
        `all_formats`, also return internal topics and topics without a format. Topics that cannot be described are left
        out.
        """
        candidates = set(self._admin.list_topics(list_internal=all_formats))
        if names is not None:
            candidates &= set(names)
        resources = [ConfigResource(TOPIC, name) for name in sorted(candidates)]
        errors: dict[ConfigResource, KafkaError] = {}
        described = self._admin.describe_configs(resources, config_filter="modified", errors=errors)
        configs = {}
        for resource, entries in described.items():
            values = {name: entry.value for name, entry in entries.items() if name.startswith(PREFIX)}
            config = TableConfig({name: value for name, value in values.items() if value is not None})
            if all_formats or config.ottla_table_format != NO_TABLE:
                configs[resource.name] = config
        if not configs:
            return []
        infos = self._admin.describe_topics(list(configs), errors={})
        return [TableTopic(name, info.topic_id, configs[name]) for name, info in infos.items()]

    def leaders(self, topic: str) -> dict[TopicPartition, Leader]:
        """Return the leaders of a topic's partitions. Partitions without a leader are left out."""
        info = self._admin.describe_topics([topic])[topic]
        return {
            TopicPartition(topic, p.partition): Leader(p.leader, p.leader_epoch)
            for p in info.partitions
            if p.leader >= 0
        }

    def directories(self, leaders: Mapping[TopicPartition, Leader]) -> dict[TopicPartition, Path]:
        """Return the directories of the leaders' replicas. Those that are not on this machine, or whose broker does not
        report its log directories, are left out.
        """
        brokers = {leader.broker_id for leader in leaders.values()}
        log_dirs = self._admin.describe_log_dirs(leaders.keys(), brokers, errors={})
        directories = {}
        for tp, leader in leaders.items():
            for path, description in log_dirs.get(leader.broker_id, {}).items():
                replica = description.replicas.get(tp)
                if replica is not None and not replica.is_future and (Path(path) / str(tp)).is_dir():
                    directories[tp] = Path(path) / str(tp)
        return directories

    def offsets(
        self, partitions: Iterable[TopicPartition], position: int = LATEST, *, committed: bool = False
    ) -> dict[TopicPartition, int]:
        """Return the high watermark of each partition; with `committed` its last stable offset, with position EARLIEST
        its first offset. Partitions that cannot be looked up, such as those without a leader, are left
        out.
        """
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        listed = self._admin.list_offsets(dict.fromkeys(partitions, position), None, isolation, errors={})
        return {tp: item.offset for tp, item in listed.items() if item.offset >= 0}

    def default_directory(self) -> Path:
        """Return the default directory of tables: `tables` in the first log directory of the broker with the lowest id
        that reports one. Raises TableError if no broker reports a log directory.
        """
        for _, directories in sorted(self._admin.describe_log_dirs([]).items()):
            for path in directories:
                return Path(path) / TABLES_DIRECTORY
        raise TableError("no broker reports a log directory; set ottla.table.location")
