"""Keyword options of consumers. Written by `python -m scripts.option_types`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.client.options.client import ClientOptions


class ConsumerOptions(ClientOptions, total=False):
    """Keyword options of consumers."""

    group_id: str | None
    """Consumer group, whose members share the partitions and the committed offsets; None: no group, so that subscribe()
    assigns all partitions of the topics to the consumer, and offsets cannot be committed. A share consumer requires a
    group.
    """
    group_protocol: str
    """Protocol of the group: classic (a member assigns the partitions) or consumer (the broker does, KIP-848)."""
    group_remote_assignor: str | None
    """Name of the broker's assignor that this member requests, for group.protocol=consumer; the group uses the one that
    most members request. None: no request; if no member requests one, the group uses the first of
    group.consumer.assignors.
    """
    group_instance_id: str | None
    """Id of a static member, which may restart within the session timeout without a rebalance; it must be unique in the
    group. None: a dynamic member.
    """
    key_deserializer: Any
    """Converts keys from bytes: a callable, a Deserializer, or the name of one, such as string or LongDeserializer;
    None: keys stay bytes.
    """
    value_deserializer: Any
    """Converts values from bytes: a callable, a Deserializer, or the name of one, such as string or LongDeserializer;
    None: values stay bytes.
    """
    fetch_min_bytes: int
    """Minimum number of bytes for which the broker waits before it responds to a fetch; it waits no longer than
    fetch.max.wait.ms.
    """
    fetch_max_wait_ms: int
    """Maximum time in milliseconds that the broker waits for fetch.min.bytes before it responds to a fetch."""
    fetch_max_bytes: int
    """Maximum bytes of a fetch response, limited also by the broker's fetch.max.bytes; a larger first batch is returned
    nevertheless. The consumer stops fetching while it has as many bytes that poll() has not returned.
    """
    max_partition_fetch_bytes: int
    """Maximum bytes of one partition in a fetch response; a larger batch is returned nevertheless if it is the first of
    the response.
    """
    auto_offset_reset: str
    """Position at which to start if a partition has no committed offset, or the position is out of range: latest,
    earliest, by_duration:PT1H (at the first record of the last hour), or none (poll() raises an error).
    """
    enable_auto_commit: bool
    """Whether the consumer commits its positions automatically: every auto.commit.interval.ms in poll(), before
    partitions are revoked, and in close(). Without group.id it is off.
    """
    auto_commit_interval_ms: int
    """Interval in milliseconds between the automatic commits that poll() makes with enable.auto.commit; after a
    retriable error, poll() commits again after retry.backoff.ms.
    """
    max_poll_records: int
    """Maximum number of records that a call of poll() returns, unless it has an argument max_records."""
    max_poll_interval_ms: int
    """Maximum time in milliseconds between calls of poll(). After that, a dynamic member leaves the group; a static
    member stops its heartbeats, so that the broker removes it after the session timeout. It is also the member's
    rebalance timeout.
    """
    session_timeout_ms: int
    """Time in milliseconds without a heartbeat after which the broker removes the member from a classic group. It
    cannot be set with group.protocol=consumer, for which the broker determines it.
    """
    heartbeat_interval_ms: int
    """Interval in milliseconds between heartbeats to a classic group; it must be less than session.timeout.ms, and at
    most a third of it is recommended. It cannot be set with group.protocol=consumer.
    """
    partition_assignment_strategy: str | Sequence[Any]
    """Assignors of a classic group in order of preference, as names (range, roundrobin, sticky, cooperative-sticky),
    Java's names, classes or objects. It cannot be set with group.protocol=consumer.
    """
    isolation_level: str
    """read_committed: the consumer skips records of aborted transactions, and reads only up to the first open
    transaction; read_uncommitted: it returns all records.
    """
    max_decompressed_batch_bytes: int
    """Maximum size in bytes of a batch after decompression; poll() raises CorruptBatchError for a larger one."""
    check_crcs: bool
    """Whether the consumer verifies the checksum of each batch; poll() raises CorruptBatchError if it is wrong."""
    client_rack: str
    """The consumer's rack or availability zone. With replica.selector.class=RackAwareReplicaSelector on the brokers,
    the consumer fetches from an in-sync replica in the same rack if there is one. Empty: always from the leader.
    """
    exclude_internal_topics: bool
    """Whether a subscription by a regular expression that the client evaluates leaves out internal topics such as
    __consumer_offsets; no effect on a SubscriptionPattern, which the broker evaluates.
    """
    default_api_timeout_ms: int
    """Timeout in milliseconds of methods, other than poll(), that are called without one."""
    default_offset_commit_callback: Any
    """Option of kafka-python: a function that is called as function(offsets, error) after automatic commits in poll()
    and after commit_async() without a callback; None: none is called.
    """
    enable_incremental_fetch_sessions: bool
    """Option of kafka-python: whether the consumer uses fetch sessions (KIP-227), in which a request names only
    partitions that have changed; otherwise every request names every partition.
    """
    consumer_timeout_ms: float
    """Option of kafka-python: time in milliseconds without a record after which an iteration over the consumer ends;
    inf: never.
    """
    enable_metrics_push: bool
    """Whether the consumer pushes its metrics to the cluster, if the cluster has a subscription for them (KIP-714)."""
    interceptor_classes: str | Sequence[Any]
    """Interceptors of records and of commits, as classes, objects or dotted names, in the order in which they are
    called.
    """
