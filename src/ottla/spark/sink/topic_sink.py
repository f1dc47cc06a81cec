"""The topic sink, `format("ottla")`: one Kafka transaction per micro-batch and task that has rows.

The transactional id consists of transactionalIdPrefix, the query, the topic (if the option topic is set) and the
number of the task. The marker is a committed offset of the consumer group with the same name: the id of the micro-batch
is committed as the offset, in the transaction. `writer` describes how this makes writes exactly once.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from shlex import quote
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ottla import errors
from ottla.model import OffsetAndMetadata, TopicPartition
from ottla.spark.options.sink_options import SinkOptions
from ottla.spark.sink.writer import Marker, StaleTask, Task, Written, recognized

if TYPE_CHECKING:
    from ottla.client.admin.admin import KafkaAdminClient
    from ottla.client.producer.producer import KafkaProducer
    from ottla.spark.sink.producer_pool import TaskProducer
    from ottla.spark.sink.row_groups import RowGroup

log: Final = logging.getLogger("ottla.spark")


class TopicSink:
    """Writes records to topics. Spark serializes it for the workers."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self.sink_id: str | None = options.sink_id
        self.batch_id: int | None = options.batch_id

    def name(self, task: Task) -> str:
        """Return a task's transactional id. It is also the id of the consumer group with its marker.

        It contains the topic, if one is configured, so that a copied checkpoint, or one sinkId for two writes, does not
        mix up two topics.
        """
        return f"{self.place(task)}{task.partition}"

    def place(self, task: Task) -> str:
        """Return the prefix of the transactional ids of a query's tasks."""
        where = task.query if self.options.topic is None else f"{task.query}-{self.options.topic}"
        return f"{self.options.prefix}-{where}-"

    def write(self, task: Task, batches: Iterator[pa.RecordBatch]) -> Written:
        """Write a task's rows and its marker in one transaction, unless there are no rows, or the marker says that they
        have been written.
        """
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return Written(task, 0)
        # Imported here because Spark's driver has a process that only plans, and importing the clients takes 70 ms.
        from ottla.spark.sink import producer_pool

        name = self.name(task)
        with producer_pool.POOL.clients(self.options.kafka, self.options.connection) as (producer, admin, _):
            self._create_topic(admin)
            # This precedes the marker, so that an earlier attempt of the task is fenced, and its transaction aborted.
            self._take_over(producer, name)
            before = self._marker(admin, name)
            if before is not None and before.batch_id >= task.batch_id:
                rows = first.num_rows + sum(batch.num_rows for batch in filled)
                return recognized(task, before, rows, "transactionalIdPrefix")
            with self._timed(), producer.transaction():
                rows, place = _send(producer, chain([first], filled), self.options.topic)
                marker = OffsetAndMetadata(task.batch_id, json.dumps({"rows": rows}))
                producer.send_offsets_to_transaction({place: marker}, name)
        return Written(task, rows)

    def _create_topic(self, admin: KafkaAdminClient) -> None:
        """Create the topic if it is missing and the options say how."""
        from ottla.client.admin.topics.topics import NewTopic

        topic, creation = self.options.topic, self.options.creation
        if topic is None or creation is None or admin.describe_topics([topic], errors={}):
            return
        new = NewTopic(topic, creation.partitions, creation.replication_factor, None, creation.configs)
        with suppress(errors.TopicAlreadyExistsError):  # by another task
            admin.create_topics([new], wait_for_metadata=True)

    def _take_over(self, producer: TaskProducer, name: str) -> None:
        """Initialize the task's transactional id. A timeout, and an invalid transaction timeout, are raised with a
        message that says what to change.
        """
        try:
            producer.take_over(name)
        except errors.KafkaTimeoutError as error:
            raise errors.KafkaTimeoutError(
                f"no response from kafka.bootstrap.servers {self.options.kafka['bootstrap.servers']}: {error}. Check"
                " the address, and that its brokers are running; the time limit is kafka.max.block.ms"
            ) from error
        except errors.InvalidTransactionTimeoutError as error:
            raise errors.InvalidTransactionTimeoutError(
                f"kafka.transaction.timeout.ms is {self.options.transaction_timeout_ms}, which the brokers reject:"
                " set it to at most their transaction.max.timeout.ms, or raise that"
            ) from error

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Context manager: if the task is fenced because its transaction has timed out, raise an error that says so.
        Brokers report only that it is fenced.
        """
        began, limit_ms = time.monotonic(), self.options.transaction_timeout_ms
        try:
            yield
        except errors.ProducerFencedError as error:
            took_ms = 1000 * (time.monotonic() - began)
            if took_ms < limit_ms:
                raise
            raise errors.ProducerFencedError(
                f"the task was writing for {took_ms / 1000:.0f} s, longer than kafka.transaction.timeout.ms"
                f" ({limit_ms}), so the brokers have aborted its transaction. Increase it (and, if necessary, the"
                " brokers' transaction.max.timeout.ms), or use more tasks with fewer rows each"
            ) from error

    def stale_task(self, task: Task, tasks: set[int]) -> StaleTask | None:
        """Return the tasks other than `tasks` that have written rows of the micro-batch of `task`, and the number of
        these rows; None if there are none. If the markers cannot be read, log a warning and return None. Raises
        IllegalStateError if the offsets of a group are not markers. Runs in the driver.
        """
        try:
            with self._admin() as admin:
                markers = {n: self._marker(admin, name) for n, name in self._others(admin, task, tasks).items()}
        except errors.IllegalStateError:
            raise
        except errors.KafkaError as error:
            # The tasks need the brokers; the driver needs them only for this check.
            log.warning(
                "Could not check whether other tasks have already written rows of micro-batch %d of query %s; "
                "continuing without the check: %s",
                task.batch_id,
                task.query,
                error,
            )
            return None
        left = {n: m.rows for n, m in sorted(markers.items()) if m is not None and m.batch_id == task.batch_id}
        if not left:
            return None
        groups = " ".join(f"--group {quote(self.name(task._replace(partition=n)))}" for n in left)
        at = quote(self.options.kafka["bootstrap.servers"])
        remedy = f"delete their markers: ottla consumer-groups --bootstrap-server {at} --delete {groups}"
        return StaleTask(sum(left.values()), list(left), remedy)

    def _others(self, admin: KafkaAdminClient, task: Task, tasks: set[int]) -> dict[int, str]:
        """Return the consumer groups with markers of the query's other tasks, past ones included, by partition."""
        stem = self.place(task)
        groups = [listed.group_id for listed in admin.list_consumer_groups()]
        ends = {name: name.removeprefix(stem) for name in groups if name.startswith(stem)}
        owners = {int(end): name for name, end in ends.items() if end.isascii() and end.isdecimal()}
        return {task: name for task, name in owners.items() if task not in tasks}

    def _admin(self) -> KafkaAdminClient:
        from ottla.client.admin.admin import KafkaAdminClient

        return KafkaAdminClient(self.options.connection)

    def _marker(self, admin: KafkaAdminClient, group: str) -> Marker | None:
        """Return the marker that is the committed offset of a consumer group: the last micro-batch written. Return None
        if there is none. Raises IllegalStateError if the offsets of the group are not markers.
        """
        # Stable: the commit of an earlier attempt may not be applied yet.
        committed = admin.list_consumer_group_offsets(group, require_stable=True)
        # Another write may have the same group: "a-b" to topic "c", and "a" to topic "b-c". Its marker is an offset of
        # its own topic.
        ours = [at for place, at in committed.items() if self.options.topic in (None, place.topic)]
        try:
            return max((Marker(at.offset, int(json.loads(at.metadata)["rows"])) for at in ours), default=None)
        except (ValueError, KeyError, TypeError) as error:
            raise errors.IllegalStateError(
                f"the offsets of group {group} are not markers of this sink, so it is unknown which"
                " micro-batches were written: they were reset, or another application uses the group. Set"
                " another transactionalIdPrefix"
            ) from error


def _send(producer: KafkaProducer, batches: Iterable[pa.RecordBatch], topic: str | None) -> tuple[int, TopicPartition]:
    """Send all rows, without waiting for acknowledgements (the commit waits for them). Return their number, and a
    partition for the marker.
    """
    from ottla.spark.sink.row_groups import row_groups

    rows, written = 0, ""
    for batch in batches:
        rows += batch.num_rows
        for part in row_groups(batch, topic):
            written = part.topic
            if part.headers is not None and part.headers.null_count < len(part.headers):
                _send_rows(producer, part)
            else:
                producer.send_batch(part.topic, part.values, part.keys, partition=part.partition)
    return rows, TopicPartition(written, 0)


def _send_rows(producer: KafkaProducer, part: RowGroup) -> None:
    """Send rows with headers one by one."""
    from ottla.model import ProducerRecord

    assert part.headers is not None
    # As bytes, because Python's str would have to be valid UTF-8.
    values = part.values.cast(pa.binary())
    keys = [None] * len(values) if part.keys is None else part.keys.cast(pa.binary())
    for key, value, headers in zip(keys, values, part.headers, strict=True):
        plain_key = None if key is None else key.as_py()
        producer.send(ProducerRecord(part.topic, value.as_py(), plain_key, _pairs(headers), part.partition))


def _pairs(headers: pa.ListScalar) -> list[tuple[str, bytes | None]]:
    """Return the headers of a row as pairs. Raises ConfigurationError for a header without a key, or with one that is
    not UTF-8.
    """
    try:
        pairs = headers.as_py() or []
    except UnicodeDecodeError as error:
        raise errors.ConfigurationError(
            f"the column headers has a key that is not UTF-8 ({error}): fix it with make_valid_utf8, or remove it"
        ) from error
    if any(pair is None or pair["key"] is None for pair in pairs):
        raise errors.ConfigurationError(
            "the column headers has null as a header, or as the key of one: remove it, for example with"
            " filter(headers, h -> h.key is not null)"
        )
    return [(pair["key"], pair["value"]) for pair in pairs]
