"""Compare the replicas of partitions, as kafka-replica-verification.sh of Kafka 0.8 to 3 does.

The command fetches the same offsets from all replicas of each partition, and compares offsets and checksums of the
batches up to the high watermark, until it is stopped or offsets differ. If a replica is not available, its partition is
compared once that replica is back.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.command import CommandFailedError
from ottla.cli.framework.connection import check_positive, connection
from ottla.cli.framework.options import Option
from ottla.cli.framework.output import Output
from ottla.cli.framework.topic_filter import topic_filter
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.log_dirs import TopicPartitionReplica
from ottla.client.admin.replica_records import ReplicaRecords
from ottla.errors import KafkaError
from ottla.model import LATEST_TIMESTAMP, TopicPartition
from ottla.records import any_magic

EVERY_TOPIC: Final = ".*"
NO_PARTITION: Final = "null"
"""Printed if `Lag.partition` is None, as by Kafka's tool."""
FETCH_BYTES: Final = 1_048_576
MAX_WAIT_MS: Final = 1000
REPORT_INTERVAL_MS: Final = 30_000
Fetched = Mapping[TopicPartitionReplica, ReplicaRecords]


class Lag(NamedTuple):
    """The lag of a partition: `records` is the largest high watermark of its replicas minus `offset`, the next
    offset to verify. The partition is None, and the numbers are -1, if no replica was fetched or all high watermarks
    are lower than the offsets to verify.
    """

    records: int
    partition: TopicPartition | None
    offset: int

    def __str__(self) -> str:
        return f"{self.records} for partition {self.partition or NO_PARTITION} at offset {self.offset}"


class ReplicaVerifier:
    """Compares the replicas of partitions. Contains the next offset to verify of each partition."""

    def __init__(self, replicas: Iterable[TopicPartitionReplica], offsets: Mapping[TopicPartition, int]) -> None:
        """Create a verifier. `offsets`: the offset at which the verification starts, for each partition of
        `replicas`.
        """
        self._offsets = dict(offsets)
        self._replicas: dict[TopicPartition, list[TopicPartitionReplica]] = {}
        for replica in sorted(replicas):
            self._replicas.setdefault(TopicPartition(replica.topic, replica.partition), []).append(replica)

    def next_offsets(self) -> dict[TopicPartitionReplica, int]:
        """Return the next offset to fetch from each replica."""
        return {replica: self._offsets[tp] for tp, replicas in self._replicas.items() for replica in replicas}

    def verify(self, fetched: Fetched) -> Iterator[str]:
        """Compare the batches of partitions of which all replicas were fetched, and yield a line for each difference in
        checksums.

        Raises CommandFailedError if offsets differ, because later batches can then not be compared.
        """
        for tp, replicas in self._replicas.items():
            if all(replica in fetched for replica in replicas):
                yield from self._verify_partition(tp, {r.broker_id: fetched[r] for r in replicas})

    def lag(self, fetched: Fetched) -> Lag:
        """Return the largest lag of a partition."""
        largest = Lag(-1, None, -1)
        for tp, replicas in self._replicas.items():
            offset = self._offsets[tp]
            high_watermark = max((fetched[r].high_watermark for r in replicas if r in fetched), default=-1)
            if high_watermark - offset > largest.records:
                largest = Lag(high_watermark - offset, tp, offset)
        return largest

    def __len__(self) -> int:
        return len(self._replicas)

    def _verify_partition(self, tp: TopicPartition, records: Mapping[int, ReplicaRecords]) -> Iterator[str]:
        for batches in zip(*map(_replicated_batches, records.values()), strict=False):
            (first_id, first), *others = zip(records, batches, strict=True)
            for replica, header in others:
                if header.last_offset != first.last_offset:
                    raise CommandFailedError(
                        f"partition {tp}: replica {first_id}'s offset {first.last_offset} doesn't match "
                        f"replica {replica}'s offset {header.last_offset}"
                    )
                if header.crc != first.crc:
                    yield (
                        f"partition {tp} has unmatched checksum at offset {header.last_offset}; replica {first_id}'s "
                        f"checksum {first.crc}; replica {replica}'s checksum {header.crc}"
                    )
            self._offsets[tp] = first.last_offset + 1


def _replicated_batches(records: ReplicaRecords) -> Iterator[Any]:
    """Yield the headers of the batches before the replica's high watermark."""
    for header, _, _ in any_magic.split(records.batches):
        if header.last_offset >= records.high_watermark:
            return
        yield header


def run(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> None:
    """Verify replicas, and print differences and the largest lag, until the command is stopped. Raises
    CommandFailedError if the offsets of batches differ, or no topic matches `--topics-include`.
    """
    verifier = _verifier(admin, args)
    output.text(f"{_now()}: verification process is started")
    reported_at, failures = time.monotonic(), ""
    while True:
        errors: dict[Any, KafkaError] = {}
        fetched = admin.fetch_replicas(
            verifier.next_offsets(), max_bytes=args.fetch_size, max_wait_ms=args.max_wait_ms, errors=errors
        )
        try:
            output.text(*(f"{_now()}: {line}" for line in verifier.verify(fetched)))
        except CommandFailedError as difference:
            raise CommandFailedError(f"{_now()}: {difference}") from None
        if time.monotonic() - reported_at >= args.report_interval_ms / 1000:
            lag, reported_at = verifier.lag(fetched), time.monotonic()
            output.text(f"{_now()}: max lag is {lag} among {len(verifier)} partitions")
        failures = _report_failures(errors, failures, output)
        if errors:
            time.sleep(args.max_wait_ms / 1000)


def _report_failures(errors: Mapping[Any, KafkaError], before: str, output: Output) -> str:
    """Return the errors of fetches as text, and print it unless it is empty or equal to `before`, the text of the
    previous round.
    """
    failures = "; ".join(f"replica {replica}: {error}" for replica, error in sorted(errors.items()))
    if failures and failures != before:
        output.warn(f"{_now()}: waiting for replicas: {failures}")
    return failures


def _verifier(admin: KafkaAdminClient, args: argparse.Namespace) -> ReplicaVerifier:
    allowed = topic_filter("--topics-include", args.topics_include)
    topics = admin.describe_topics([name for name in admin.list_topics() if allowed.fullmatch(name)])
    if not topics:
        raise CommandFailedError("No topics found. --topics-include filters out all topics, or there is no topic.")
    replicas = [
        TopicPartitionReplica(name, partition.partition, broker)
        for name, topic in topics.items()
        for partition in topic.partitions
        for broker in partition.replicas
    ]
    partitions = {TopicPartition(replica.topic, replica.partition) for replica in replicas}
    offsets = {tp: o.offset for tp, o in admin.list_offsets(dict.fromkeys(partitions, args.time)).items()}
    too_late = [tp for tp, offset in offsets.items() if offset < 0]  # no record has this timestamp or a later one
    if too_late:
        offsets |= {tp: o.offset for tp, o in admin.list_offsets(dict.fromkeys(too_late, LATEST_TIMESTAMP)).items()}
    return ReplicaVerifier(replicas, offsets)


def _now() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)) + f",{int(now * 1000) % 1000:03}"


def _check(args: argparse.Namespace) -> None:
    check_positive(args, "fetch_size", "max_wait_ms")
    topic_filter("--topics-include", args.topics_include)


COMMAND = AdminCommand(
    run=run,
    check=_check,
    options=(
        *connection("--broker-list"),
        Option("--fetch-size BYTES", "maximum bytes to fetch from each replica in a request", int, default=FETCH_BYTES),
        Option(
            "--max-wait-ms MS",
            "maximum time in milliseconds for which a broker waits for records, and pause after a failed fetch",
            int,
            default=MAX_WAIT_MS,
        ),
        Option(
            "--topics-include REGEX,…",
            "topics to verify, as regular expressions that match whole names",
            default=EVERY_TOPIC,
        ),
        Option(
            "--time MS",
            "where to start: at the first record at or after a time in milliseconds since 1970; -1: at the latest "
            "offset; -2: at the earliest",
            int,
            default=LATEST_TIMESTAMP,
        ),
        Option(
            "--report-interval-ms MS",
            "minimum time in milliseconds between two reports of the largest lag",
            int,
            default=REPORT_INTERVAL_MS,
        ),
    ),
)
