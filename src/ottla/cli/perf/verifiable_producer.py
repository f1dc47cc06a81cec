"""Send rising numbers, and tell of each whether it was acknowledged, in JSON: kafka-verifiable-producer.sh."""

from __future__ import annotations

import argparse
import itertools
import threading
import time
from functools import partial
from typing import Any, Final

from ottla.cli.framework.connection import add_connection, client_options, without_serialization
from ottla.cli.framework.deprecated import deprecation, take_over
from ottla.cli.framework.java_errors import java_class
from ottla.cli.framework.json_events import Events
from ottla.cli.framework.signals import stopping
from ottla.cli.framework.throughput_throttler import ThroughputThrottler
from ottla.client.producer.producer import KafkaProducer
from ottla.errors import KafkaError
from ottla.model import RecordMetadata

NOT_GIVEN: Final = -1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla verifiable-producer`."""
    add_connection(parser)
    parser.add_argument("--producer.config", metavar="FILE", help="as --command-config")
    parser.add_argument("--topic", required=True, help="where the records go")
    parser.add_argument("--max-messages", type=int, default=-1, metavar="N", help="how many; -1: until it is stopped")
    parser.add_argument(
        "--throughput", type=int, default=-1, metavar="N", help="most records per second, about; -1: no limit"
    )
    parser.add_argument("--acks", type=int, choices=(0, 1, -1), default=-1, help="-1: of all replicas in sync")
    parser.add_argument(
        "--message-create-time",
        type=int,
        default=NOT_GIVEN,
        metavar="MS",
        help="the first record's time, since 1970; it goes on from there as the clock does",
    )
    parser.add_argument("--value-prefix", type=int, metavar="N", help="values are N.0, N.1, N.2…")
    parser.add_argument("--repeating-keys", type=int, metavar="N", help="keys are 0, 1… N-1, 0, 1…: none")


def run(args: argparse.Namespace) -> int:
    """Do it, until all are sent or a signal comes. Records that are refused are told, too: the exit code stays 0."""
    if take_over(args, "--producer.config", "--command-config"):
        print(deprecation("--producer.config", "--command-config"), flush=True)
    events = Events()
    load = _Load(KafkaProducer(_options(args)), args, events)
    with stopping(load.stop) as stop:
        load.send()
        load.finish()
    return stop.exit_code


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Options of the producer. Those of the file count, as with Kafka's tool: acks and retries, too."""
    return {"acks": args.acks, "retries": 0, **without_serialization(client_options(args))}


class _Load:
    """Rising numbers on their way."""

    def __init__(self, producer: KafkaProducer, args: argparse.Namespace, events: Events) -> None:
        self._producer = producer
        self._args = args
        self._events = events
        self._sent = 0
        self._acked = 0
        """The I/O thread's, until the producer is closed."""
        self._start = time.monotonic()
        self._ended = threading.Event()
        self._closing = threading.Thread(target=self._close, daemon=True)

    def stop(self) -> None:
        """Send no more; in a signal's handler.

        A send() that waits for a broker is called off by closing. It is not interrupted: then a record might be on its
        way of which nothing is told. A thread does it, as the main thread may hold the locks that are needed.
        """
        self._closing.start()

    def _close(self) -> None:
        self._ended.set()
        self._producer.close()

    def send(self) -> None:
        """Send as many as are wanted."""
        self._events.tell("startup_complete")
        wanted = self._args.max_messages
        pace = ThroughputThrottler(self._args.throughput, self._ended)
        for number in itertools.count() if wanted < 0 else range(wanted):
            if self._ended.is_set():
                return
            self._send(number)
            pace.wait(number)

    def finish(self) -> None:
        """Wait until it is known what has become of them all, and tell it."""
        self._producer.close()
        if self._closing.ident is not None:
            self._closing.join()
        self._events.tell("shutdown_complete")
        seconds = max(time.monotonic() - self._start, 0.001)
        self._events.tell(
            "tool_data",
            sent=self._sent,
            acked=self._acked,
            target_throughput=self._args.throughput,
            avg_throughput=self._acked / seconds,
        )
        self._events.check()

    def _send(self, number: int) -> None:
        self._events.check()
        key, value = self._key(number), self._value(number)
        self._sent += 1
        try:
            future = self._producer.send(
                self._args.topic, value.encode(), None if key is None else key.encode(), timestamp_ms=self._time()
            )
        except KafkaError as error:
            self._told(key, value, None, error)
        else:
            future.report_to(partial(self._told, key, value))

    def _told(self, key: str | None, value: str, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """Tell what has become of a record. On the I/O thread, but for what was never on its way."""
        if metadata is not None:
            self._acked += 1
            at = {"offset": metadata.offset, "topic": metadata.topic, "partition": metadata.partition}
            self._events.tell("producer_send_success", key=key, value=value, **at)
        elif error is not None:
            told = {"exception": f"class {java_class(error)}", "message": str(error)}
            self._events.tell("producer_send_error", topic=self._args.topic, key=key, value=value, **told)

    def _value(self, number: int) -> str:
        prefix = self._args.value_prefix
        return str(number) if prefix is None else f"{prefix}.{number}"

    def _key(self, number: int) -> str | None:
        """Of 0 keys, or fewer, none ever comes again, as with Kafka's tool."""
        count = self._args.repeating_keys
        if count is None:
            return None
        return str(number % count if count > 0 else number)

    def _time(self) -> int | None:
        if self._args.message_create_time == NOT_GIVEN:
            return None
        first: int = self._args.message_create_time
        return first + int((time.monotonic() - self._start) * 1000)
