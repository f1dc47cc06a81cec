"""The topics of captured tables, each with a table of upserts (`ottla.table.mode=upsert`)."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from typing import Any, Final

from ottla import ConsumerRecord, KafkaAdminClient, KafkaConsumer, NewTopic, TopicPartition
from ottla.client.admin.configs import TOPIC, ConfigResource
from ottla_pipelines.capture.postgresql import TableSource
from ottla_pipelines.capture.rows import table_schema

log: Final = logging.getLogger("ottla_pipelines")

SCHEMA: Final = "ottla.table.schema"
DISCOVERY_SECONDS: Final = 10.0
"""Time in seconds after which table writers have read a topic's new config: they read the configs every five seconds.
"""


class Topics:
    """Creates the topics, and reads their keys.

    Args:
        admin: the admin client.
        clients: the configs of all clients.
        prefix: the first part of the topics' names.
        configs: further configs of new topics.
        wait: called with a number of seconds to wait.
    """

    def __init__(
        self,
        admin: KafkaAdminClient,
        clients: Mapping[str, Any],
        prefix: str,
        configs: Mapping[str, str],
        wait: Callable[[float], object],
    ) -> None:
        self._admin = admin
        self._clients = dict(clients)
        self._prefix = prefix
        self._configs = dict(configs)
        self._wait = wait

    def name(self, table: TableSource) -> str:
        """Return the topic of a table: PREFIX.TABLE, or PREFIX.SCHEMA.TABLE if the schema is not `public`. Characters
        that names of topics cannot have are replaced by `_`.
        """
        namespace, name = table.relation.namespace, table.relation.name
        parts = (self._prefix, name) if namespace == "public" else (self._prefix, namespace, name)
        return re.sub(r"[^\w.-]", "_", ".".join(parts), flags=re.ASCII)

    def prepare(self, table: TableSource) -> None:
        """Create the topic of a table. If the topic exists with other columns in `ottla.table.schema`, update this
        config, and wait for DISCOVERY_SECONDS, so that table writers have read it.
        """
        name, schema = self.name(table), table_schema(table.relation.columns)
        if not self.exists(name):
            configs = {"cleanup.policy": "compact", "ottla.table.mode": "upsert", SCHEMA: schema, **self._configs}
            self._admin.create_topics([NewTopic(name, -1, -1, None, configs)], wait_for_metadata=True)
            return
        resource = ConfigResource(TOPIC, name)
        current = self._admin.describe_configs([resource])[resource].get(SCHEMA)
        if current is not None and current.value != schema:
            log.info(
                "Topic %s: setting %s to the present columns of the captured table, and waiting %g s for table "
                "writers to read it",
                name,
                SCHEMA,
                DISCOVERY_SECONDS,
            )
            self._admin.incremental_alter_configs({resource: {SCHEMA: schema}})
            # Records with new columns must not be read by a writer that does not know them yet.
            self._wait(DISCOVERY_SECONDS)

    def exists(self, topic: str) -> bool:
        """Return whether a topic exists."""
        return topic in self._admin.list_topics()

    def has_records(self, topic: str) -> bool:
        """Return whether the topic exists and has had records."""
        if not self.exists(topic):
            return False
        with self._consumer() as consumer:
            return any(consumer.end_offsets(self._partitions(topic)).values())

    def first_key(self, topic: str) -> bytes | None:
        """Return the key of one of the oldest records; None if there are none, or if the record has no key."""
        with closing(self._records(topic)) as polled:
            return next((records[0].key for records in polled), None)

    def keys(self, topic: str) -> list[bytes]:
        """Return the keys that are not deleted in the committed records, and all keys of the open transaction.

        Keys that the open transaction deletes are among them: a tombstone for a key without a row does no harm.
        Tombstones of aborted transactions do not count, because their rows are still there.
        """
        live: dict[bytes, bool] = {}
        committed: dict[TopicPartition, int] = {}
        for records in self._records(topic, "read_committed", committed):
            live.update((record.key, record.value is not None) for record in records)
        for records in self._records(topic, "read_uncommitted", committed):
            live.update((record.key, True) for record in records)
        return [key for key, is_live in live.items() if is_live]

    def _records(
        self, topic: str, isolation: str = "read_uncommitted", offsets: dict[TopicPartition, int] | None = None
    ) -> Generator[list[ConsumerRecord], None, None]:
        """Read the topic to its present end, or to the last stable offset if `isolation` is read_committed. Each item
        is a list of records of one partition.

        `offsets`: the offsets to start at, by default the earliest ones; they are updated to the end.
        """
        partitions = self._partitions(topic)
        with self._consumer(isolation) as consumer:
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            for tp, offset in (offsets or {}).items():
                consumer.seek(tp, offset)
            ends = consumer.end_offsets(partitions)
            while any(consumer.position(tp) < end for tp, end in ends.items()):
                yield from consumer.poll(timeout_ms=500).values()
            if offsets is not None:
                offsets.update(ends)

    def _partitions(self, topic: str) -> list[TopicPartition]:
        info = self._admin.describe_topics([topic])[topic]
        return [TopicPartition(topic, p.partition) for p in info.partitions]

    def _consumer(self, isolation: str = "read_uncommitted") -> KafkaConsumer:
        return KafkaConsumer({**self._clients, "enable.auto.commit": False, "isolation.level": isolation})
