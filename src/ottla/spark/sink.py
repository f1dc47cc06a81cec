"""Writing topics with `format("ottla")`: a Kafka transaction for each task of each micro-batch.

The transactional id names query, topic and partition. The marker is an offset of a consumer group of the same name,
committed in the transaction, that carries the micro-batch's id. See `writer` for what that makes of it.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from shlex import quote
from typing import TYPE_CHECKING

import pyarrow as pa

from ottla.client.producer.core import ProducerRecord
from ottla.client.producer.producer import KafkaProducer
from ottla.errors import (
    ConfigurationError,
    IllegalStateError,
    InvalidTransactionTimeoutError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
)
from ottla.model import OffsetAndMetadata, TopicPartition
from ottla.spark.row_groups import RowGroup, row_groups
from ottla.spark.sink_options import SinkOptions
from ottla.spark.writer import Marker, Share, StaleTask, Written, recognized

if TYPE_CHECKING:
    from ottla.client.admin.admin import KafkaAdminClient

log = logging.getLogger("ottla.spark")


class TopicSink:
    """Writes records. Travels to the workers."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self.sink_id = options.sink_id
        self.batch_id = options.batch_id

    def name(self, share: Share) -> str:
        """A share's transactional id, and the group that keeps its marker.

        With the topic: a copied checkpoint, or one sinkId for two writes, must not take one topic's rows for another's.
        """
        return f"{self.place(share)}{share.partition}"

    def place(self, share: Share) -> str:
        """How the names of a query's tasks begin."""
        where = share.query if self.options.topic is None else f"{share.query}-{self.options.topic}"
        return f"{self.options.prefix}-{where}-"

    def write(self, share: Share, batches: Iterator[pa.RecordBatch]) -> Written:
        """Write a task's rows and its marker in one transaction, unless the marker is there."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return Written(share, 0)
        name = self.name(share)
        with KafkaProducer({**self.options.kafka, "transactional.id": name}) as producer:
            # First of all: an earlier attempt that still runs is fenced, and one that died half-way is rolled back.
            self._init(producer)
            with self._admin() as admin:
                before = self._marker(admin, name)
            if before is not None and before.batch_id >= share.batch_id:
                rows = first.num_rows + sum(batch.num_rows for batch in filled)
                return recognized(share, before, rows, "transactionalIdPrefix")
            with self._timed(), producer.transaction():
                rows, place = _send(producer, chain([first], filled), self.options.topic)
                marker = OffsetAndMetadata(share.batch_id, json.dumps({"rows": rows}))
                producer.send_offsets_to_transaction({place: marker}, name)
        return Written(share, rows)

    def _init(self, producer: KafkaProducer) -> None:
        """Take the name over. KafkaTimeoutError, with the remedy, where no broker answers."""
        try:
            producer.init_transactions()
        except KafkaTimeoutError as error:
            raise KafkaTimeoutError(
                f"no answer at kafka.bootstrap.servers {self.options.kafka['bootstrap.servers']}: {error}. Check the"
                " address and that its brokers run; kafka.max.block.ms says how long is waited"
            ) from error
        except InvalidTransactionTimeoutError as error:
            raise InvalidTransactionTimeoutError(
                f"kafka.transaction.timeout.ms is {self.options.transaction_timeout_ms}, which the brokers refuse:"
                " set it to at most their transaction.max.timeout.ms, or raise that"
            ) from error

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """A task that has lost its transaction to the clock is told so: brokers say only that it is fenced."""
        began, limit_ms = time.monotonic(), self.options.transaction_timeout_ms
        try:
            yield
        except ProducerFencedError as error:
            took_ms = 1000 * (time.monotonic() - began)
            if took_ms < limit_ms:
                raise
            raise ProducerFencedError(
                f"the task has written for {took_ms / 1000:.0f} s, longer than kafka.transaction.timeout.ms"
                f" ({limit_ms}) allows, so the brokers have taken its rows back. Raise that (and, if need be, the"
                " brokers' transaction.max.timeout.ms), or have more tasks with fewer rows each"
            ) from error

    def stale_task(self, share: Share, tasks: set[int]) -> StaleTask | None:
        """What others than `tasks` have written of the share's micro-batch. Runs in the driver."""
        try:
            with self._admin() as admin:
                markers = {task: self._marker(admin, name) for task, name in self._others(admin, share, tasks).items()}
        except IllegalStateError:
            raise
        except KafkaError as error:
            # Tasks need the brokers, the driver needs them for this only.
            log.warning("whether %s was cut into other tasks before cannot be looked up: %s", share.query, error)
            return None
        left = {task: m.rows for task, m in sorted(markers.items()) if m is not None and m.batch_id == share.batch_id}
        if not left:
            return None
        groups = " ".join(f"--group {quote(self.name(share._replace(partition=task)))}" for task in left)
        at = quote(self.options.kafka["bootstrap.servers"])
        remedy = f"delete their markers: ottla consumer-groups --bootstrap-server {at} --delete {groups}"
        return StaleTask(sum(left.values()), list(left), remedy)

    def _others(self, admin: KafkaAdminClient, share: Share, tasks: set[int]) -> dict[int, str]:
        """The groups of other tasks of the share's query, those of the past among them."""
        stem = self.place(share)
        groups = [listed.group_id for listed in admin.list_consumer_groups()]
        ends = {name: name.removeprefix(stem) for name in groups if name.startswith(stem)}
        owners = {int(end): name for name, end in ends.items() if end.isascii() and end.isdecimal()}
        return {task: name for task, name in owners.items() if task not in tasks}

    def _admin(self) -> KafkaAdminClient:
        from ottla.client.admin.admin import KafkaAdminClient

        return KafkaAdminClient(self.options.connection)

    def _marker(self, admin: KafkaAdminClient, group: str) -> Marker | None:
        """The last micro-batch that was written under a name."""
        # Stable: a broker may still be about to apply what an attempt before this one has committed.
        committed = admin.list_consumer_group_offsets(group, require_stable=True)
        # A write of another name may have the same group, "a-b" to the topic "c" as "a" to "b-c". Its marker lies with
        # its own topic.
        ours = [at for place, at in committed.items() if self.options.topic in (None, place.topic)]
        try:
            return max((Marker(at.offset, int(json.loads(at.metadata)["rows"])) for at in ours), default=None)
        except (ValueError, KeyError, TypeError) as error:
            raise IllegalStateError(
                f"the offsets of the group {group} are no markers of this sink, so whether micro-batches were written"
                " cannot be told: somebody has reset them, or uses the name. Set another transactionalIdPrefix"
            ) from error


def _send(producer: KafkaProducer, batches: Iterable[pa.RecordBatch], topic: str | None) -> tuple[int, TopicPartition]:
    """Send all rows; how many, and a partition that exists, for the marker. The commit waits for their outcomes."""
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
    """Rows with headers go one by one."""
    assert part.headers is not None
    # Text as its bytes, whatever they are: as Python's text it would have to be UTF-8.
    values = part.values.cast(pa.binary())
    keys = [None] * len(values) if part.keys is None else part.keys.cast(pa.binary())
    for key, value, headers in zip(keys, values, part.headers, strict=True):
        plain_key = None if key is None else key.as_py()
        producer.send(ProducerRecord(part.topic, value.as_py(), plain_key, _pairs(headers), part.partition))


def _pairs(headers: pa.ListScalar) -> list[tuple[str, bytes | None]]:
    """The headers of a row. ConfigurationError for what has no name."""
    try:
        pairs = headers.as_py() or []
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"the column headers has a key that is no UTF-8 ({error}): mend it with make_valid_utf8, or leave it out"
        ) from error
    if any(pair is None or pair["key"] is None for pair in pairs):
        raise ConfigurationError(
            "the column headers has null as a header, or as the key of one: leave it out, such as by"
            " filter(headers, h -> h.key is not null)"
        )
    return [(pair["key"], pair["value"]) for pair in pairs]
