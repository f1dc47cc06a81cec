"""The consumer's options: Kafka's names, defaults and bounds."""

from __future__ import annotations

from typing import Any

from ottla.config.client import ClientConfig, anything, boolean, each, integer, loaded, nullable, number, one_of, text
from ottla.config.options import Option
from ottla.errors import ConfigurationError

ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
"""Java's assignors and what stands for them."""


def assignor(value: Any) -> Any:
    """A name of ours, a Java class, an assignor or the dotted name of one."""
    if isinstance(value, str):
        name = ASSIGNORS.get(value.strip(), value.strip())
        return name if name in ASSIGNORS.values() else loaded(name)
    return value


class ConsumerConfig(ClientConfig, subject="consumer"):
    """Options of a consumer."""

    group_id = Option(None, nullable(text), "The group that shares the topics and keeps offsets; None: no group.")
    group_instance_id = Option(None, nullable(text), "Makes a member static: it may restart without a rebalance.")
    key_deserializer = Option(None, anything, "Makes keys of bytes: a callable or a Deserializer.")
    value_deserializer = Option(None, anything, "Makes values of bytes: a callable or a Deserializer.")
    fetch_min_bytes = Option(1, integer(0), "The broker answers a fetch when it has this much…")
    fetch_max_wait_ms = Option(500, integer(0), "… or after this time.")
    fetch_max_bytes = Option(52_428_800, integer(0), "Most bytes of one fetch response.")
    max_partition_fetch_bytes = Option(1_048_576, integer(0), "Most bytes of one partition in a fetch response.")
    auto_offset_reset = Option(
        "latest",
        one_of("latest", "earliest", "none", aliases={"smallest": "earliest", "largest": "latest"}),
        "Where to begin without a committed offset, or when it is out of range.",
    )
    enable_auto_commit = Option(True, boolean, "Commit positions in the background of poll().")
    auto_commit_interval_ms = Option(5000, integer(0), "How often positions are committed.")
    max_poll_records = Option(500, integer(1), "Most records that one poll() returns.")
    max_poll_interval_ms = Option(300_000, integer(1), "A member that does not poll for longer leaves the group.")
    session_timeout_ms = Option(45_000, integer(1), "A member that is silent for longer is dropped.")
    heartbeat_interval_ms = Option(3000, integer(1), "How often a member says that it is alive.")
    partition_assignment_strategy = Option(
        ("range", "cooperative-sticky"), each(assignor), "Assignors, the preferred one first."
    )
    isolation_level = Option(
        "read_uncommitted", one_of("read_uncommitted", "read_committed"), "Whether to wait for transactions to commit."
    )
    check_crcs = Option(True, boolean, "Whether the CRC of each batch is checked.")
    client_rack = Option("", text, "Where this consumer stands, to fetch from the nearest replica.")
    exclude_internal_topics = Option(True, boolean, "Whether patterns leave out internal topics.")
    default_api_timeout_ms = Option(60_000, integer(0), "Time limit of calls that are given none.")
    consumer_timeout_ms = Option(float("inf"), number(0), "Iteration ends after this long without a record.")
    interceptor_classes = Option((), each(loaded), "Interceptors, as classes or objects, in order.")

    def check(self) -> None:
        """Timings must fit each other."""
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigurationError("heartbeat.interval.ms must be less than session.timeout.ms")
        if not self.partition_assignment_strategy:
            raise ConfigurationError("partition.assignment.strategy needs at least one assignor")
        if self.group_id is None:
            self.values["enable.auto.commit"] = False
