"""The access of the Spark source to brokers: lookups for planning, and reading ranges of offsets."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar
from uuid import UUID

from ottla.client.consumer.fetch import ranges
from ottla.errors import KafkaError, KafkaTimeoutError
from ottla.model import INTERNAL_TOPICS, TopicPartition
from ottla.records.columns import Columns
from ottla.spark.options.offset_range_limit import Offsets
from ottla.spark.options.options import SourceOptions, Subscription, connection_options
from ottla.spark.source.offsets import OffsetRange
from ottla.spark.source.ranges import check_exists

if TYPE_CHECKING:
    from ottla.client.admin.admin import KafkaAdminClient

log: Final = logging.getLogger("ottla.spark")

T = TypeVar("T")


class Brokers:
    """Looks up partitions and offsets, with fetchOffset.numRetries retries of retriable errors. Implements
    `TopicLookup`.

    A lookup that times out (kafka.default.api.timeout.ms) is not retried before any lookup has succeeded, because the
    address is probably wrong.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        # A metadata request of a consumer could create the topic, so that is disabled.
        self._planner = ranges.Planner({"allow.auto.create.topics": "false", **options.kafka})
        self._admin: KafkaAdminClient | None = None
        self._reached = False
        """Whether a lookup has succeeded. If so, timeouts are retried."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._planner.close()
        if self._admin is not None:
            self._admin.close()

    def partitions(self, subscription: Subscription, *, all_must_exist: bool = True) -> frozenset[TopicPartition]:
        """Return the partitions that the subscription matches at the moment. A pattern does not match internal topics.

        Raises UnknownTopicOrPartitionError if a topic that the subscription names does not exist, unless
        `all_must_exist` is false: a running stream reports that as data loss.
        """
        return self._retrying(lambda: self._partitions(subscription, all_must_exist))

    @property
    def topic_ids(self) -> Mapping[str, UUID]:
        """The ids of topics by name, at the last call of `partitions`. Brokers before Kafka 2.8 report zero."""
        return self._planner.topic_ids

    def _partitions(self, subscription: Subscription, all_must_exist: bool) -> frozenset[TopicPartition]:
        if subscription.pattern is not None:
            # As for a consumer with exclude.internal.topics: a pattern such as .* does not match these.
            return frozenset(self._planner.partitions(self._planner.topics(subscription.pattern) - INTERNAL_TOPICS))
        assigned = subscription.assigned
        topics = {tp.topic for tp in assigned} if assigned is not None else set(subscription.topics or ())
        # Metadata requests that name a missing topic would wait for it.
        existing = self._planner.partitions(topics & self._planner.topics())
        partitions = existing if assigned is None else existing & assigned
        if all_must_exist:
            check_exists(topics, assigned, existing, self._where)
        return frozenset(partitions)

    @property
    def _where(self) -> str:
        return f"kafka.bootstrap.servers {self._options.bootstrap_servers}"

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the first offset of each partition."""
        listed = list(partitions)
        return self._retrying(lambda: self._planner.beginning_offsets(listed)) if listed else {}

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the offset up to which each partition can be read: its high watermark or last stable offset."""
        listed = list(partitions)
        return self._retrying(lambda: self._planner.end_offsets(listed)) if listed else {}

    def latest_from(self, partitions: Iterable[TopicPartition], begin: Mapping[TopicPartition, int]) -> Offsets:
        """Return the end offset of each partition. If one is before `begin`, look all up again, at most
        fetchOffset.numRetries times, because a new leader may not know it yet.
        """
        listed = list(partitions)
        latest = self.latest(listed)
        for _ in range(self._options.retries):
            if all(end >= begin.get(tp, 0) for tp, end in latest.items()):
                break
            time.sleep(self._options.retry_interval_ms / 1000)
            latest = self.latest(listed)
        return latest

    def at_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the offset of the first record at or after each timestamp (ms since 1970); None if there is none."""
        offsets = self._retrying(lambda: self._planner.offsets_for(timestamps))
        return {tp: None if at is None else at.offset for tp, at in offsets.items()}

    def commit(self, group: str, offsets: Offsets) -> None:
        """Commit offsets for a consumer group. If that fails, log a warning: only tools that show the lag need them."""
        try:
            if self._admin is None:
                # Imported here because every Spark worker imports this module.
                from ottla.client.admin.admin import KafkaAdminClient

                self._admin = KafkaAdminClient(connection_options(self._options.kafka))
            self._admin.alter_consumer_group_offsets(group, offsets)
        except KafkaError as error:
            log.warning(
                "Could not commit the offsets of group %s at %s; this affects only tools that show the group's lag: %s",
                group,
                self._where,
                error,
            )

    def _retrying(self, request: Callable[[], T]) -> T:
        for attempt in range(self._options.retries + 1):
            try:
                answer = request()
                self._reached = True
                return answer
            except KafkaError as error:
                if isinstance(error, KafkaTimeoutError) and not self._reached:
                    raise KafkaTimeoutError(
                        f"no response from {self._where}: {error}. Check the address, and that its brokers are running;"
                        " the time limit is kafka.default.api.timeout.ms"
                    ) from error
                if not error.retriable or attempt == self._options.retries:
                    raise
                log.warning(
                    "Lookup of partitions or offsets at %s failed; retrying in %g s (retry %d of %d): %s",
                    self._options.bootstrap_servers,
                    self._options.retry_interval_ms / 1000,
                    attempt + 1,
                    self._options.retries,
                    error,
                )
                time.sleep(self._options.retry_interval_ms / 1000)
        raise AssertionError("the last attempt returns or raises")


def read_range(offset_range: OffsetRange, options: SourceOptions) -> Iterator[Columns]:
    """Yield the records of a range as columns.

    Raises OffsetOutOfRangeError if the next offset to read is not in the log, and KafkaTimeoutError if there is no
    progress within kafkaConsumer.pollTimeoutMs.
    """
    tp, start, end = offset_range
    return ranges.read_range(
        options.bootstrap_servers,
        tp,
        start,
        end,
        options.kafka,
        headers=options.include_headers,
        poll_timeout_ms=options.poll_timeout_ms,
    )
