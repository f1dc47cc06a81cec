"""Keyword options of consumers. Written by `python -m scripts.option_types`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.client.options.client import ClientOptions


class ConsumerOptions(ClientOptions, total=False):
    """Keyword options of consumers."""

    group_id: str | None
    """Consumer group, whose members share the partitions and the committed offsets; None: no group."""
    group_protocol: str
    """Protocol of the group: consumer (the broker assigns partitions, KIP-848) or classic (a member does)."""
    group_remote_assignor: str | None
    """Server-side assignor for group.protocol=consumer; None: the broker's default."""
    group_instance_id: str | None
    """Id of a static member, which may restart within the session timeout without a rebalance; None: a dynamic member.
    """
    key_deserializer: Any
    """Converts keys from bytes: a callable or a Deserializer; None: keys stay bytes."""
    value_deserializer: Any
    """Converts values from bytes: a callable or a Deserializer; None: values stay bytes."""
    fetch_min_bytes: int
    """Minimum bytes of a fetch response; the broker waits for them for up to fetch.max.wait.ms."""
    fetch_max_wait_ms: int
    """Maximum time in milliseconds that the broker waits for fetch.min.bytes."""
    fetch_max_bytes: int
    """Maximum bytes of a fetch response; a larger first batch is returned nevertheless."""
    max_partition_fetch_bytes: int
    """Maximum bytes of one partition in a fetch response; a larger first batch is returned nevertheless."""
    auto_offset_reset: str
    """Position if there is no valid committed offset: latest, earliest, none (raise an error) or by_duration:PT1H (the
    first record of the last hour).
    """
    enable_auto_commit: bool
    """Commit offsets automatically, in poll() and close(). Without group.id it is off."""
    auto_commit_interval_ms: int
    """Interval in milliseconds between automatic commits."""
    max_poll_records: int
    """Maximum number of records that poll() returns."""
    max_poll_interval_ms: int
    """Maximum time in milliseconds between calls of poll(); a slower member leaves the group."""
    session_timeout_ms: int
    """Time in milliseconds without a heartbeat after which the broker removes the member from a classic group."""
    heartbeat_interval_ms: int
    """Interval in milliseconds between heartbeats to a classic group; at most a third of session.timeout.ms is
    recommended.
    """
    partition_assignment_strategy: str | Sequence[Any]
    """Assignors of a classic group, in order of preference: names or classes."""
    isolation_level: str
    """read_committed skips records of aborted transactions and waits for open ones to end; read_uncommitted returns all
    records.
    """
    max_decompressed_batch_bytes: int
    """Maximum size in bytes of a batch after decompression; poll() raises CorruptBatchError for a larger one."""
    check_crcs: bool
    """Verify the checksum of each batch."""
    client_rack: str
    """The consumer's rack or availability zone, to fetch from the nearest replica; empty: from the leader."""
    exclude_internal_topics: bool
    """Whether a subscription by pattern leaves out internal topics."""
    default_api_timeout_ms: int
    """Timeout in milliseconds of methods that are called without one."""
    default_offset_commit_callback: Any
    """Option of kafka-python: a function that is called with (offsets, error) after commits without a callback."""
    enable_incremental_fetch_sessions: bool
    """Option of kafka-python: use fetch sessions (KIP-227); otherwise every request names every partition."""
    consumer_timeout_ms: float
    """Option of kafka-python: end an iteration after this time in milliseconds without a record; inf: never."""
    enable_metrics_push: bool
    """Push metrics to the cluster if it has a subscription for them (KIP-714)."""
    interceptor_classes: str | Sequence[Any]
    """Interceptors, as classes or objects, in the order in which they are called."""
