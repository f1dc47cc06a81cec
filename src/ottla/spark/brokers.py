"""The one place of `spark` that talks to brokers: look-ups for planning, and reading a range."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from ottla.client.consumer.fetch import ranges
from ottla.errors import KafkaError, KafkaTimeoutError
from ottla.model import INTERNAL_TOPICS, TopicPartition
from ottla.records.columns import Columns
from ottla.spark.offset_range_limit import Offsets
from ottla.spark.offsets import OffsetRange
from ottla.spark.options import SourceOptions, Subscription, connection_options
from ottla.spark.ranges import check_exists

if TYPE_CHECKING:
    from ottla.client.admin.admin import KafkaAdminClient

log = logging.getLogger("ottla.spark")

T = TypeVar("T")


class Brokers:
    """Look-ups of partitions and offsets, each tried again as `fetchOffset.numRetries` says. A planning `Lookup`.

    Brokers that have not answered once are given one time limit (kafka.default.api.timeout.ms) and no second try: the
    address is likely to be wrong.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        # A look-up must not create what it asks for; a consumer would.
        self._planner = ranges.Planner({"allow.auto.create.topics": "false", **options.kafka})
        self._admin: KafkaAdminClient | None = None
        self._reached = False
        """Whether brokers have answered: then a running query waits for them longer than a new one."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connections."""
        self._planner.close()
        if self._admin is not None:
            self._admin.close()

    def partitions(self, subscription: Subscription, *, all_must_exist: bool = True) -> frozenset[TopicPartition]:
        """The partitions that a subscription means now.

        Raises UnknownTopicOrPartitionError for what was named but is not there, unless a running stream asks, which
        reports that as loss of data.
        """
        return self._retrying(lambda: self._partitions(subscription, all_must_exist))

    def _partitions(self, subscription: Subscription, all_must_exist: bool) -> frozenset[TopicPartition]:
        if subscription.pattern is not None:
            # As a consumer's exclude.internal.topics: a pattern such as .* does not mean these.
            return frozenset(self._planner.partitions(self._planner.topics(subscription.pattern) - INTERNAL_TOPICS))
        assigned = subscription.assigned
        topics = {tp.topic for tp in assigned} if assigned is not None else set(subscription.topics or ())
        # Asked for by name, a topic that is not there would be waited for.
        existing = self._planner.partitions(topics & self._planner.topics())
        partitions = existing if assigned is None else existing & assigned
        if all_must_exist:
            check_exists(topics, assigned, existing, self._where)
        return frozenset(partitions)

    @property
    def _where(self) -> str:
        return f"kafka.bootstrap.servers {self._options.bootstrap_servers}"

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offset that each partition holds."""
        listed = list(partitions)
        return self._retrying(lambda: self._planner.beginning_offsets(listed)) if listed else {}

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The end that a consumer may read up to."""
        listed = list(partitions)
        return self._retrying(lambda: self._planner.end_offsets(listed)) if listed else {}

    def latest_from(self, partitions: Iterable[TopicPartition], begin: Mapping[TopicPartition, int]) -> Offsets:
        """The ends, asked for again where one lies before `begin`: a new leader may not know its own end yet."""
        listed = list(partitions)
        latest = self.latest(listed)
        for _ in range(self._options.retries):
            if all(end >= begin.get(tp, 0) for tp, end in latest.items()):
                break
            time.sleep(self._options.retry_interval_ms / 1000)
            latest = self.latest(listed)
        return latest

    def at_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after each time in ms; None where a partition has no such record."""
        offsets = self._retrying(lambda: self._planner.offsets_for(timestamps))
        return {tp: None if at is None else at.offset for tp, at in offsets.items()}

    def commit(self, group: str, offsets: Offsets) -> None:
        """Tell a group how far was read. A failure is a warning: only tools that show lag go by it."""
        try:
            if self._admin is None:
                # Imported where it is needed: every worker of Spark imports this module.
                from ottla.client.admin.admin import KafkaAdminClient

                self._admin = KafkaAdminClient(connection_options(self._options.kafka))
            self._admin.alter_consumer_group_offsets(group, offsets)
        except KafkaError as error:
            log.warning("the offsets of group %s were not committed at %s: %s", group, self._where, error)

    def _retrying(self, request: Callable[[], T]) -> T:
        for attempt in range(self._options.retries + 1):
            try:
                answer = request()
                self._reached = True
                return answer
            except KafkaError as error:
                if isinstance(error, KafkaTimeoutError) and not self._reached:
                    raise KafkaTimeoutError(
                        f"no answer at {self._where}: {error}. Check the address and that its brokers run;"
                        " kafka.default.api.timeout.ms says how long is waited"
                    ) from error
                if not error.retriable or attempt == self._options.retries:
                    raise
                log.warning("a look-up at %s failed and is tried again: %s", self._options.bootstrap_servers, error)
                time.sleep(self._options.retry_interval_ms / 1000)
        raise AssertionError("the last attempt returns or raises")


def read_range(offset_range: OffsetRange, options: SourceOptions) -> Iterator[Columns]:
    """The records of a range as columns.

    Raises OffsetOutOfRangeError where it is not all there, KafkaTimeoutError where nothing comes for
    kafkaConsumer.pollTimeoutMs.
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
