"""Send increasing numbers, and report the result of each as JSON, as kafka-verifiable-producer.sh does."""

from __future__ import annotations

import argparse
import itertools
import threading
import time
from functools import partial
from typing import Any, Final

from ottla.cli.framework.command import Command
from ottla.cli.framework.connection import client_options, connection, without_serialization
from ottla.cli.framework.java_errors import java_class
from ottla.cli.framework.options import Option
from ottla.cli.framework.signals import stopping
from ottla.cli.perf.deprecated import deprecation, use_new_name
from ottla.cli.perf.json_events import Events
from ottla.cli.perf.throughput_throttler import ThroughputThrottler
from ottla.client.producer.producer import KafkaProducer
from ottla.errors import KafkaError
from ottla.model import RecordMetadata

NOT_SET: Final = -1


def run(args: argparse.Namespace) -> int:
    """Send until all records are sent or a signal arrives, and return 0, or 128 plus the number of the signal. Failed
    records are reported, but do not change the exit code.
    """
    if use_new_name(args, "--producer.config", "--command-config"):
        print(deprecation("--producer.config", "--command-config"), flush=True)
    events = Events()
    load = _Load(KafkaProducer(_options(args)), args, events)
    with stopping(load.stop) as stop:
        load.send()
        load.finish()
    return stop.exit_code


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the producer's configs. The profile and the file override `--acks`, as the file does in Kafka's tool."""
    return {"acks": args.acks, "retries": 0, **without_serialization(client_options(args))}


class _Load:
    """Sends increasing numbers, and reports the results."""

    def __init__(self, producer: KafkaProducer, args: argparse.Namespace, events: Events) -> None:
        self._producer = producer
        self._args = args
        self._events = events
        self._sent = 0
        self._acked = 0
        """The number of acknowledged records."""
        self._lock = threading.Lock()
        """Guards `_acked`, which two threads increase."""
        self._start = time.monotonic()
        self._stopped = threading.Event()
        self._closing = threading.Thread(target=self._close, daemon=True)

    def stop(self) -> None:
        """Stop sending, by closing the producer in a thread. Called by the signal handler.

        Closing the producer ends a send() that is waiting for a broker. Interrupting the send() could leave a record in
        flight without a report. A thread is needed because the main thread may be holding a lock that close() needs.
        """
        self._closing.start()

    def _close(self) -> None:
        self._stopped.set()
        self._producer.close()

    def send(self) -> None:
        """Send the requested number of records (negative: no limit). Return earlier if `stop` is called."""
        self._events.report("startup_complete")
        count = self._args.max_messages
        throttler = ThroughputThrottler(self._args.throughput, self._stopped)
        for number in itertools.count() if count < 0 else range(count):
            if self._stopped.is_set():
                return
            self._send(number)
            throttler.wait(number)

    def finish(self) -> None:
        """Close the producer, which waits for the results of all records, and report the totals."""
        self._producer.close()
        if self._closing.ident is not None:
            self._closing.join()
        self._events.report("shutdown_complete")
        seconds = max(time.monotonic() - self._start, 0.001)
        self._events.report(
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
            self._report(key, value, None, error)
        else:
            future.report_to(partial(self._report, key, value))

    def _report(
        self, key: str | None, value: str, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        """Report the result of a record. Called in the I/O thread, or in the main thread if send() has raised an error
        or the result has arrived already.
        """
        if metadata is not None:
            with self._lock:
                self._acked += 1
            position = {"offset": metadata.offset, "topic": metadata.topic, "partition": metadata.partition}
            self._events.report("producer_send_success", key=key, value=value, **position)
        elif error is not None:
            failure = {"exception": f"class {java_class(error)}", "message": str(error)}
            self._events.report("producer_send_error", topic=self._args.topic, key=key, value=value, **failure)

    def _value(self, number: int) -> str:
        prefix = self._args.value_prefix
        return str(number) if prefix is None else f"{prefix}.{number}"

    def _key(self, number: int) -> str | None:
        """Return the key of a record: its number modulo --repeating-keys. Return None without --repeating-keys. If
        --repeating-keys is not positive, each record has a different key, as with Kafka's tool.
        """
        count = self._args.repeating_keys
        if count is None:
            return None
        return str(number % count if count > 0 else number)

    def _time(self) -> int | None:
        if self._args.message_create_time == NOT_SET:
            return None
        first: int = self._args.message_create_time
        return first + int((time.monotonic() - self._start) * 1000)


COMMAND = Command(
    run=run,
    options=(
        *connection(),
        Option("--producer.config FILE", "same as --command-config (deprecated)"),
        Option("--topic", "topic to send records to", required=True),
        Option("--max-messages N", "number of records to send; -1: send until the command is stopped", int, default=-1),
        Option(
            "--throughput N",
            "approximate limit of records per second; 0: send two records and wait until the "
            "command is stopped; negative: no limit",
            int,
            default=-1,
        ),
        Option(
            "--acks",
            "acknowledgements to wait for: 0 (none), 1 (the leader) or -1 (all in-sync replicas); acks in the file of "
            "--command-config or in the profile overrides it",
            int,
            choices=(0, 1, -1),
            default=-1,
        ),
        Option(
            "--message-create-time MS",
            "timestamp at the start of the command in milliseconds since 1970; the timestamps of records advance from "
            "it with the clock; -1: the time of sending",
            int,
            default=NOT_SET,
        ),
        Option("--value-prefix N", "number before each value: N.0, N.1, N.2… (default: no prefix: 0, 1, 2…)", int),
        Option("--repeating-keys N", "keys are 0, 1… N-1, 0, 1…; 0 or less: 0, 1, 2… (default: no keys)", int),
    ),
)
