"""Writing topics with `format("ottla")`: a Kafka transaction for each task of each micro-batch.

The transactional id names query, topic and partition. The marker is an offset of a consumer group of the same name,
committed in the transaction, that carries the micro-batch's id. See `writer` for what that makes of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain

import pyarrow as pa

from ottla.client.producer.core import ProducerRecord
from ottla.client.producer.producer import KafkaProducer
from ottla.errors import KafkaTimeoutError
from ottla.model import OffsetAndMetadata, TopicPartition
from ottla.spark.parts import Part, parts_of
from ottla.spark.sink_options import SinkOptions
from ottla.spark.writer import Marker, Share, Written, recognized


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
        where = share.query if self.options.topic is None else f"{share.query}-{self.options.topic}"
        return f"{self.options.prefix}-{where}-{share.partition}"

    def write(self, share: Share, batches: Iterator[pa.RecordBatch]) -> Written:
        """Write a task's rows and its marker in one transaction, unless the marker is there."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return Written(0)
        name = self.name(share)
        with KafkaProducer({**self.options.kafka, "transactional.id": name}) as producer:
            # First of all: an earlier attempt that still runs is fenced, and one that died half-way is rolled back.
            self._init(producer)
            before = self._marker(name)
            if before is not None and before.batch_id >= share.batch_id:
                rows = first.num_rows + sum(batch.num_rows for batch in filled)
                return recognized(share, before, rows, "transactionalIdPrefix")
            with producer.transaction():
                rows, place = _send(producer, chain([first], filled), self.options.topic)
                marker = OffsetAndMetadata(share.batch_id, json.dumps({"rows": rows}))
                producer.send_offsets_to_transaction({place: marker}, name)
        return Written(rows)

    def _init(self, producer: KafkaProducer) -> None:
        """Take the name over. KafkaTimeoutError, with the remedy, where no broker answers."""
        try:
            producer.init_transactions()
        except KafkaTimeoutError as error:
            raise KafkaTimeoutError(
                f"no answer at kafka.bootstrap.servers {self.options.kafka['bootstrap.servers']}: {error}. Check the"
                " address and that its brokers run; kafka.max.block.ms says how long is waited"
            ) from error

    def _marker(self, group: str) -> Marker | None:
        """The last micro-batch that was written under a name."""
        from ottla.client.admin.admin import KafkaAdminClient

        with KafkaAdminClient(self.options.connection) as admin:
            # Stable: a broker may still be about to apply what an attempt before this one has committed.
            found = admin.list_consumer_group_offsets(group, require_stable=True)
        return max((Marker(at.offset, int(json.loads(at.metadata)["rows"])) for at in found.values()), default=None)


def _send(producer: KafkaProducer, batches: Iterable[pa.RecordBatch], topic: str | None) -> tuple[int, TopicPartition]:
    """Send all rows; how many, and a partition that exists, for the marker. The commit waits for their outcomes."""
    rows, written = 0, ""
    for batch in batches:
        rows += batch.num_rows
        for part in parts_of(batch, topic):
            written = part.topic
            if part.headers is not None and part.headers.null_count < len(part.headers):
                _send_rows(producer, part)
            else:
                producer.send_batch(part.topic, part.values, part.keys, partition=part.partition)
    return rows, TopicPartition(written, 0)


def _send_rows(producer: KafkaProducer, part: Part) -> None:
    """Rows with headers go one by one."""
    keys = part.keys if part.keys is not None else [None] * len(part.values)
    assert part.headers is not None
    for key, value, headers in zip(keys, part.values, part.headers, strict=True):
        pairs = [(pair["key"], pair["value"]) for pair in headers.as_py() or ()]
        plain_key = None if key is None else key.as_py()
        producer.send(ProducerRecord(part.topic, value.as_py(), plain_key, pairs, part.partition))
