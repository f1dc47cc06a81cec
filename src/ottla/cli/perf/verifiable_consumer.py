"""Read a topic as a member of a group, and tell all that happens meanwhile, in JSON: kafka-verifiable-consumer.sh."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ottla.cli.framework.connection import add_connection, client_options, not_reached, without_serialization
from ottla.cli.framework.deprecated import deprecation, take_over
from ottla.cli.framework.json_events import Events
from ottla.cli.framework.signals import Stop, stopping
from ottla.client.consumer.consumer import KafkaConsumer
from ottla.client.consumer.core import Records
from ottla.client.consumer.group.membership import ConsumerRebalanceListener
from ottla.client.consumer.records import ConsumerRecord
from ottla.errors import FencedInstanceIdError, KafkaError, WakeupError
from ottla.model import OffsetAndMetadata, TopicPartition

POLL_MS: Final = 100
RANGE: Final = "org.apache.kafka.clients.consumer.RangeAssignor"

Offsets = dict[TopicPartition, OffsetAndMetadata]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla verifiable-consumer`."""
    add_connection(parser)
    parser.add_argument("--consumer.config", metavar="FILE", help="as --command-config")
    parser.add_argument("--topic", required=True, help="what to read")
    parser.add_argument("--group-id", required=True, metavar="ID", help="the consumer group")
    parser.add_argument(
        "--group-protocol",
        type=str.lower,
        choices=("classic", "consumer"),
        default="classic",
        help="who divides partitions: a member (classic), or the broker",
    )
    parser.add_argument(
        "--group-remote-assignor", metavar="NAME", help="the broker's assignor, with --group-protocol consumer"
    )
    parser.add_argument("--group-instance-id", metavar="ID", help="makes it a static member")
    parser.add_argument("--max-messages", type=int, default=-1, metavar="N", help="how many; -1: until it is stopped")
    parser.add_argument("--session-timeout", type=int, metavar="MS", help="session.timeout.ms, with classic: 45000")
    parser.add_argument("--verbose", action="store_true", help="tell each record")
    parser.add_argument("--enable-autocommit", action="store_true", help="commit now and then, not after each poll")
    parser.add_argument(
        "--reset-policy", default="earliest", metavar="WHERE", help="to begin without an offset: earliest, latest, none"
    )
    parser.add_argument(
        "--assignment-strategy", default=RANGE, metavar="NAME", help="with classic: RangeAssignor, RoundRobinAssignor…"
    )


def run(args: argparse.Namespace) -> int:
    """Do it, until there are enough or a signal comes; what ends it before is told when all has ended."""
    if take_over(args, "--consumer.config", "--command-config"):
        print(deprecation("--consumer.config", "--command-config"), flush=True)
    events = Events()
    failure: KafkaError | None = None
    with KafkaConsumer(_options(args)) as consumer, stopping(consumer.wakeup) as stop:
        try:
            _Reading(consumer, args, events, stop).read()
        except KafkaError as error:
            failure = error
        requested = bool(stop.number)
        if requested:
            events.tell("shutdown_requested")
        consumer.close()
        events.tell("shutdown_complete")
        if not requested:
            # It comes last then: Kafka's tool has it in a hook of the JVM's end.
            events.tell("shutdown_requested")
    events.check()
    if failure is not None:
        raise failure
    return stop.exit_code


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Options of the consumer; those of the command line count, as with Kafka's tool."""
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


class _Reading(ConsumerRebalanceListener):
    """Reads and tells."""

    def __init__(self, consumer: KafkaConsumer, args: argparse.Namespace, events: Events, stop: Stop) -> None:
        self._consumer = consumer
        self._args = args
        self._events = events
        self._stop = stop
        self._count = 0

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Tell of them."""
        self._events.tell("partitions_assigned", partitions=[tp._asdict() for tp in sorted(assigned)])

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Tell of them."""
        self._events.tell("partitions_revoked", partitions=[tp._asdict() for tp in sorted(revoked)])

    def read(self) -> None:
        """Read until there are enough, or a signal came. BrokerNotAvailableError where there never was a broker."""
        self._events.tell("startup_complete")
        self._consumer.subscribe([self._args.topic], listener=self)
        begin = time.monotonic()
        while self._left() != 0 and not self._stop.number:
            self._events.check()
            try:
                polled = self._consumer.poll(POLL_MS)
            except WakeupError:
                return
            if polled:
                self._take(polled)
            elif not self._consumer.bootstrap_connected():
                self._be_patient(time.monotonic() - begin)

    def _left(self) -> int | None:
        """How many records are wanted still; None for all of them."""
        wanted: int = self._args.max_messages
        return None if wanted < 0 else wanted - self._count

    def _be_patient(self, seconds: float) -> None:
        limit = self._consumer.config.default_api_timeout_ms
        if seconds * 1000 >= limit:
            raise not_reached(self._args, limit)

    def _take(self, polled: Records) -> None:
        """Tell what was polled; what is more than wanted is passed over, and left to the group."""
        summaries: list[dict[str, Any]] = []
        offsets: Offsets = {}
        for tp, records in polled.items():
            some = records[: self._left()]
            if not some:
                break
            self._count += len(some)
            if self._args.verbose:
                self._tell_each(some)
            first, last = some[0].offset, some[-1].offset
            summaries.append({**tp._asdict(), "count": len(some), "minOffset": first, "maxOffset": last})
            offsets[tp] = OffsetAndMetadata(last + 1)
        self._events.tell("records_consumed", count=sum(map(len, polled.values())), partitions=summaries)
        if not self._args.enable_autocommit:
            self._commit(offsets)

    def _tell_each(self, records: Sequence[ConsumerRecord]) -> None:
        for record in records:
            at = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
            self._events.tell("record_data", key=_text(record.key), value=_text(record.value), **at)

    def _commit(self, offsets: Offsets) -> None:
        try:
            self._consumer.commit(offsets)
        except WakeupError:
            self._commit(offsets)  # a signal wakes up once
        except FencedInstanceIdError:
            raise
        except KafkaError as error:
            self._events.tell("offsets_committed", offsets=_rows(offsets), error=str(error), success=False)
        else:
            self._events.tell("offsets_committed", offsets=_rows(offsets), success=True)


def _rows(offsets: Offsets) -> Iterable[dict[str, Any]]:
    return [{**tp._asdict(), "offset": at.offset} for tp, at in offsets.items()]


def _text(data: bytes | None) -> str | None:
    """As Java's StringDeserializer: what is no UTF-8 is replaced."""
    return None if data is None else data.decode(errors="replace")
