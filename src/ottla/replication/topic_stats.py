"""Counters of the records of topics: Kafka's `BrokerTopicStats`.

Plain additions on the event loop, without a lock; they are read when metrics are scraped. Counters only grow. Those of
a deleted topic stay in the sums of the broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ottla import errors
from ottla.latency import LatencyHistogram

NOT_COUNTED = (errors.UnknownTopicOrPartitionError, errors.NotLeaderOrFollowerError, errors.KafkaStorageError)
"""Errors that do not count as failed produce requests, as in Kafka: clients refresh their metadata and retry."""


class TopicStats:
    """The counters of one topic on this broker."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetch_requests",
        "failed_produce_requests",
        "failed_share_acknowledgements",
        "failed_share_fetch_requests",
        "fetch_conversions",
        "fetch_requests",
        "invalid_crc",
        "invalid_magic",
        "invalid_offset_or_sequence",
        "invalid_records",
        "messages_in",
        "produce_conversions",
        "produce_requests",
        "replication_bytes_in",
        "replication_bytes_out",
        "share_acknowledgements",
        "share_fetch_requests",
    )

    def __init__(self) -> None:
        self.messages_in = self.bytes_in = self.bytes_out = self.bytes_rejected = 0
        self.produce_requests = self.failed_produce_requests = self.produce_conversions = 0
        self.fetch_requests = self.failed_fetch_requests = self.fetch_conversions = 0
        self.replication_bytes_in = self.replication_bytes_out = 0
        self.share_fetch_requests = self.failed_share_fetch_requests = 0
        self.share_acknowledgements = self.failed_share_acknowledgements = 0
        self.invalid_crc = self.invalid_magic = self.invalid_records = self.invalid_offset_or_sequence = 0

    def add(self, other: TopicStats) -> None:
        """Add the counters of another topic."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def on_rejected(self, error: errors.KafkaError, nbytes: int) -> None:
        """Count a producer's batch that was not appended."""
        self.produce_requests += 1
        if isinstance(error, NOT_COUNTED):
            return
        self.failed_produce_requests += 1
        if isinstance(error, errors.MessageTooLargeError):
            self.bytes_rejected += nbytes
        elif isinstance(error, errors.CorruptMessageError):
            self.invalid_crc += 1
        elif isinstance(error, errors.UnsupportedForMessageFormatError):
            self.invalid_magic += 1
        elif isinstance(error, errors.OutOfOrderSequenceNumberError):
            self.invalid_offset_or_sequence += 1
        elif isinstance(error, errors.InvalidRecordError):
            self.invalid_records += 1


class BrokerTopicStats:
    """The counters of all topics. A topic has its own as soon as this broker has a replica of it."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicStats] = {}
        self._others = TopicStats()
        """Of deleted topics, and of topics that this broker has no replica of."""
        self.produce_conversion_times = LatencyHistogram()
        self.fetch_conversion_times = LatencyHistogram()
        self.produce_conversion_bytes = self.fetch_conversion_bytes = 0
        """Sizes of converted records."""
        self.acknowledgements = Counter[int]()
        """The number of records that members of share groups have acknowledged, by Kafka's number of the type."""

    def add(self, topic: str) -> TopicStats:
        """Return the counters of a topic of which this broker has a replica."""
        return self._topics.setdefault(topic, TopicStats())

    def get(self, topic: str | None) -> TopicStats:
        """Return the counters of a topic; those of all unknown topics are one, so that clients cannot make up many."""
        return self._topics.get(topic or "", self._others)

    def remove(self, topic: str) -> None:
        """Remove a deleted topic; its counters stay in the sums."""
        stats = self._topics.pop(topic, None)
        if stats is not None:
            self._others.add(stats)

    @property
    def topics(self) -> Mapping[str, TopicStats]:
        return self._topics

    def total(self) -> TopicStats:
        """Return the sums over all topics."""
        total = TopicStats()
        total.add(self._others)
        for stats in self._topics.values():
            total.add(stats)
        return total
