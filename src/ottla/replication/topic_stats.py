"""Counters of records, bytes, requests and errors per topic. Kafka's `BrokerTopicStats`.

They are incremented on the event loop without a lock, and read when metrics are scraped. Counters never decrease. Those
of a deleted topic stay in the broker's sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ottla import errors
from ottla.latency import LatencyHistogram

NOT_COUNTED = (errors.UnknownTopicOrPartitionError, errors.NotLeaderOrFollowerError, errors.KafkaStorageError)
"""Errors that do not count as failed produce requests, because clients refresh their metadata and retry."""


class TopicStats:
    """The counters of one topic on this broker, or the sums of several topics."""

    __slots__ = (
        "aux_state_errors",
        "aux_state_requests",
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
        "remote_copy_bytes",
        "remote_copy_errors",
        "remote_copy_requests",
        "remote_delete_errors",
        "remote_delete_requests",
        "remote_fetch_bytes",
        "remote_fetch_errors",
        "remote_fetch_requests",
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
        self.remote_fetch_requests = self.remote_fetch_bytes = self.remote_fetch_errors = 0
        self.remote_copy_requests = self.remote_copy_bytes = self.remote_copy_errors = 0
        self.remote_delete_requests = self.remote_delete_errors = 0
        self.aux_state_requests = self.aux_state_errors = 0
        self.invalid_crc = self.invalid_magic = self.invalid_records = self.invalid_offset_or_sequence = 0

    def add(self, other: TopicStats) -> None:
        """Add the counters of another topic to these."""
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
    """The counters of all topics.

    Only topics of which this broker has or had a replica have their own counters; all others share one set.
    """

    def __init__(self) -> None:
        self._topics: dict[str, TopicStats] = {}
        self._others = TopicStats()
        """The counters of deleted topics, and of topics of which this broker never had a replica."""
        self.produce_conversion_times = LatencyHistogram()
        self.fetch_conversion_times = LatencyHistogram()
        self.produce_conversion_bytes = self.fetch_conversion_bytes = 0
        """Total sizes of converted records in bytes."""
        self.acknowledgements = Counter[int]()
        """Number of records that members of share groups have acknowledged, by acknowledgement type."""

    def add(self, topic: str) -> TopicStats:
        """Return the counters of a topic of which this broker has a replica; create them if there are none yet."""
        return self._topics.setdefault(topic, TopicStats())

    def get(self, topic: str | None) -> TopicStats:
        """Return the counters of a topic.

        Topics of which this broker never had a replica share one set of counters, so that clients cannot exhaust memory
        with invented names.
        """
        return self._topics.get(topic or "", self._others)

    def remove(self, topic: str) -> None:
        """Remove the counters of a deleted topic. Their values stay in the sums."""
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
