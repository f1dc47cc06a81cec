"""Read a topic as a group member, and report what happens as JSON, as kafka-verifiable-consumer.sh does."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ottla.cli.framework.command import Command
from ottla.cli.framework.connection import client_options, connection, unreachable, without_serialization
from ottla.cli.framework.options import Flag, Option
from ottla.cli.framework.signals import GracefulShutdown, stopping
from ottla.cli.perf.deprecated import deprecation, use_new_name
from ottla.cli.perf.json_events import Events
from ottla.client.consumer.consumer import KafkaConsumer
from ottla.client.consumer.core import Records
from ottla.client.consumer.group.membership import ConsumerRebalanceListener
from ottla.errors import FencedInstanceIdError, KafkaError, WakeupError
from ottla.model import OffsetAndMetadata, TopicPartition
from ottla.records.consumer_record import ConsumerRecord

POLL_MS: Final = 100
RANGE: Final = "org.apache.kafka.clients.consumer.RangeAssignor"

Offsets = dict[TopicPartition, OffsetAndMetadata]


def run(args: argparse.Namespace) -> int:
    """Read until there are enough records or a signal arrives, and return 0, or 128 plus the number of the signal. A
    KafkaError while reading is raised only after the shutdown has been reported.
    """
    if use_new_name(args, "--consumer.config", "--command-config"):
        print(deprecation("--consumer.config", "--command-config"), flush=True)
    events = Events()
    failure: KafkaError | None = None
    with KafkaConsumer(_options(args)) as consumer, stopping(consumer.wakeup) as stop:
        try:
            _Reader(consumer, args, events, stop).read()
        except KafkaError as error:
            failure = error
        requested = bool(stop.number)
        if requested:
            events.report("shutdown_requested")
        consumer.close()
        events.report("shutdown_complete")
        if not requested:
            # It comes last then, because Kafka's tool reports it in a shutdown hook of the JVM.
            events.report("shutdown_requested")
    events.check()
    if failure is not None:
        raise failure
    return stop.exit_code


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the consumer's configs. The command line overrides the file, as with Kafka's tool."""
    options = without_serialization(client_options(args))
    options["group.id"] = args.group_id
    options["group.protocol"] = args.group_protocol
    options["enable.auto.commit"] = args.enable_autocommit
    options["auto.offset.reset"] = args.reset_policy
    by_broker = args.group_protocol == "consumer"
    for name, value in (
        ("group.remote.assignor", args.group_remote_assignor if by_broker else None),
        ("partition.assignment.strategy", None if by_broker else args.assignment_strategy),
        ("group.instance.id", args.group_instance_id),
        ("session.timeout.ms", args.session_timeout),
    ):
        if value is not None:
            options[name] = value
    return options


class _Reader(ConsumerRebalanceListener):
    """Reads records and reports events."""

    def __init__(
        self, consumer: KafkaConsumer, args: argparse.Namespace, events: Events, stop: GracefulShutdown
    ) -> None:
        self._consumer = consumer
        self._args = args
        self._events = events
        self._stop = stop
        self._count = 0

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._events.report("partitions_assigned", partitions=[tp._asdict() for tp in sorted(assigned)])

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._events.report("partitions_revoked", partitions=[tp._asdict() for tp in sorted(revoked)])

    def read(self) -> None:
        """Read until there are enough records or a signal arrives. Raises BrokerNotAvailableError if no broker could be
        reached within default.api.timeout.ms.
        """
        self._events.report("startup_complete")
        self._consumer.subscribe([self._args.topic], listener=self)
        start = time.monotonic()
        while self._remaining() != 0 and not self._stop.number:
            self._events.check()
            try:
                polled = self._consumer.poll(POLL_MS)
            except WakeupError:
                return
            if polled:
                self._process(polled)
            elif not self._consumer.bootstrap_connected():
                self._check_timeout(time.monotonic() - start)

    def _remaining(self) -> int | None:
        """Return how many records remain to be read; None if there is no limit."""
        count: int = self._args.max_messages
        return None if count < 0 else count - self._count

    def _check_timeout(self, seconds: float) -> None:
        limit = self._consumer.config.default_api_timeout_ms
        if seconds * 1000 >= limit:
            raise unreachable(self._args, limit)

    def _process(self, polled: Records) -> None:
        """Report the records of a poll, and commit their offsets unless auto commit is enabled. Records beyond the
        limit are neither listed nor committed; only the total of the report includes them, as with Kafka's tool.
        """
        summaries: list[dict[str, Any]] = []
        offsets: Offsets = {}
        for tp, records in polled.items():
            batch = records[: self._remaining()]
            if not batch:
                break
            self._count += len(batch)
            if self._args.verbose:
                self._report_each(batch)
            first, last = batch[0].offset, batch[-1].offset
            summaries.append({**tp._asdict(), "count": len(batch), "minOffset": first, "maxOffset": last})
            offsets[tp] = OffsetAndMetadata(last + 1)
        self._events.report("records_consumed", count=sum(map(len, polled.values())), partitions=summaries)
        if not self._args.enable_autocommit:
            self._commit(offsets)

    def _report_each(self, records: Sequence[ConsumerRecord]) -> None:
        for record in records:
            position = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
            self._events.report("record_data", key=_text(record.key), value=_text(record.value), **position)

    def _commit(self, offsets: Offsets) -> None:
        try:
            self._consumer.commit(offsets)
        except WakeupError:
            self._commit(offsets)  # a signal causes only one wakeup
        except FencedInstanceIdError:
            raise
        except KafkaError as error:
            self._events.report("offsets_committed", offsets=_rows(offsets), error=str(error), success=False)
        else:
            self._events.report("offsets_committed", offsets=_rows(offsets), success=True)


def _rows(offsets: Offsets) -> Iterable[dict[str, Any]]:
    return [{**tp._asdict(), "offset": entry.offset} for tp, entry in offsets.items()]


def _text(data: bytes | None) -> str | None:
    """Decode UTF-8 like Java's StringDeserializer: invalid bytes are replaced."""
    return None if data is None else data.decode(errors="replace")


COMMAND = Command(
    run=run,
    options=(
        *connection(),
        Option("--consumer.config FILE", "same as --command-config (deprecated)"),
        Option("--topic", "topic to read", required=True),
        Option("--group-id ID", "consumer group to join", required=True),
        Option(
            "--group-protocol",
            "group protocol: classic (partitions are assigned by a member) or consumer (by the broker)",
            str.lower,
            choices=("classic", "consumer"),
            default="classic",
        ),
        Option(
            "--group-remote-assignor NAME",
            "with --group-protocol consumer: assignor of the broker, such as uniform or range (default: the broker's "
            "choice)",
        ),
        Option("--group-instance-id ID", "group.instance.id, for a static member (default: a dynamic member)"),
        Option("--max-messages N", "number of records to read; -1: read until the command is stopped", int, default=-1),
        Option("--session-timeout MS", "with --group-protocol classic: session.timeout.ms (default: 45000)", int),
        Flag("--verbose", "report the key and value of each record"),
        Flag("--enable-autocommit", "commit offsets periodically, not after each poll"),
        Option(
            "--reset-policy WHERE",
            "auto.offset.reset: where to start if the group has no valid committed offset: earliest, latest, none "
            "(fail) or by_duration:PnDTnHnMnS",
            default="earliest",
        ),
        Option(
            "--assignment-strategy NAME",
            "with --group-protocol classic: assignor, such as RangeAssignor or RoundRobinAssignor",
            default=RANGE,
        ),
    ),
)
