"""Replay of events into topics: `python -m ottla_pipelines.ingest.replay --run DIR --bootstrap-servers HOST:PORT`.

It may be killed at any time and started again; every event is then in its topic exactly once. Within a process that is
ensured by the idempotent producer, which retries a batch for weeks: if it gave one up and wrote the next one, the
partition would have a gap. Across processes it is ensured by the last number in each partition (see `events`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic, errors
from ottla.model import TopicPartition
from ottla_pipelines.catalog import TOPIC_CONFIG, Topic
from ottla_pipelines.ingest import files, nycflights
from ottla_pipelines.ingest.events import Event, Numbered, is_missing, number, sequence_of
from ottla_pipelines.progress import Ticker, report
from ottla_pipelines.run import Run, partitions

_NEVER_MS = 2**31 - 1
_CHECK_EVERY = 256
_TAIL_TIMEOUT_S = 30.0


def events_of(run: Run) -> Iterator[Event]:
    """Return all events of the run."""
    return files.events(run.input, run.by) if run.input else nycflights.events(run.limit)


def count_of(run: Run) -> int | None:
    """Return the number of events, or None if it is not known before the input is read."""
    if run.input or run.limit is not None:
        return None
    return nycflights.FLIGHT_COUNT + nycflights.WEATHER_COUNT + nycflights.AIRPORT_COUNT


def create_topics(bootstrap_servers: str, topics: Iterable[Topic]) -> None:
    """Create the topics that do not exist."""
    new_topics = [NewTopic(t.name, t.partitions, 1, topic_configs=dict(TOPIC_CONFIG)) for t in topics]
    with KafkaAdminClient(bootstrap_servers=bootstrap_servers) as admin:
        for topic in new_topics:
            try:
                admin.create_topics([topic])
            except errors.TopicAlreadyExistsError:
                continue


def bulk_producer(bootstrap_servers: str, delivery_timeout_ms: int = 120_000) -> KafkaProducer:
    """Return an idempotent producer with large, compressed batches for sending many events."""
    return KafkaProducer(
        bootstrap_servers=bootstrap_servers,
        acks="all",
        enable_idempotence=True,
        compression_type="lz4",
        linger_ms=20,
        batch_size=128 * 1024,
        delivery_timeout_ms=delivery_timeout_ms,
    )


def last_sequences(bootstrap_servers: str, topics: tuple[Topic, ...]) -> dict[TopicPartition, int]:
    """Return the number of the last event in each partition that is not empty. Raises IllegalStateError if these events
    cannot be read within 30 seconds, and MalformedMessageError if a record is not an event of a replay.
    """
    with KafkaConsumer(bootstrap_servers=bootstrap_servers, enable_auto_commit=False) as consumer:
        ends = consumer.end_offsets(list(partitions(topics)))
        waiting = {tp for tp, end in ends.items() if end}
        consumer.assign(list(waiting))
        for tp in waiting:
            consumer.seek(tp, ends[tp] - 1)
        sequences: dict[TopicPartition, int] = {}
        deadline = time.monotonic() + _TAIL_TIMEOUT_S
        while waiting - sequences.keys():
            if time.monotonic() > deadline:
                raise errors.IllegalStateError(f"the last records of {waiting - sequences.keys()} cannot be read")
            for tp, records in consumer.poll(timeout_ms=500).items():
                sequences[tp] = sequence_of(records[-1].value)
        return sequences


class Replay:
    """Sends the events that the topics do not contain yet, at most at the requested rate (events per second, None
    without limit).
    """

    def __init__(self, producer: KafkaProducer, last: Mapping[TopicPartition, int], rate: float | None) -> None:
        self._producer = producer
        self._last = last
        self._rate = rate
        self._errors: list[BaseException] = []
        self._ticker = Ticker()
        self.sent = 0
        """The number of events sent by this process."""
        self.seen = 0
        """The number of events sent or found in the topics."""

    def run(self, events: Iterator[Numbered]) -> None:
        """Send all missing events, and wait until they are acknowledged or have failed. Raises the error of a failed
        send if it is one of the sampled ones.
        """
        started = time.monotonic()
        for event in events:
            if is_missing(event, self._last):
                self._send(event)
            self.seen += 1
            if self.seen % _CHECK_EVERY == 0:
                self._check(started)
        self._producer.flush()
        self._raise_error()
        self._report(started)

    def _send(self, event: Numbered) -> None:
        _, topic, partition, key, value, timestamp_ms = event
        future = self._producer.send(topic, value=value, key=key, partition=partition, timestamp_ms=timestamp_ms)
        if self.sent % _CHECK_EVERY == 0:
            # A sample of the futures is enough to detect errors early; the end offsets are checked after the last
            # event.
            future.add_errback(self._errors.append)
        self.sent += 1

    def _check(self, started: float) -> None:
        self._raise_error()
        if self._ticker.is_due():
            self._report(started)
        if self._rate:
            ahead_s = self.sent / self._rate - (time.monotonic() - started)
            if ahead_s > 0:
                time.sleep(ahead_s)

    def _report(self, started: float) -> None:
        report(sent=self.sent, seen=self.seen, seconds=round(time.monotonic() - started, 3))

    def _raise_error(self) -> None:
        if self._errors:
            raise self._errors[0]


def replay(run: Run, bootstrap_servers: str, rate: float | None, seconds: float | None) -> None:
    """Send the events that the topics do not contain yet, at most `rate` per second, or evenly over `seconds`. Save the
    end offsets in the run.
    """
    create_topics(bootstrap_servers, run.topics)
    last = last_sequences(bootstrap_servers, run.topics)
    total = count_of(run)
    if seconds:
        total = total or sum(1 for _ in events_of(run))
        rate = max(total, 1) / seconds
    report(total=total)
    with bulk_producer(bootstrap_servers, delivery_timeout_ms=_NEVER_MS) as producer:
        work = Replay(producer, last, rate)
        work.run(number(events_of(run)))
    run.save_end_offsets(_checked_ends(run, bootstrap_servers, work.seen))


def _checked_ends(run: Run, bootstrap_servers: str, events: int) -> dict[TopicPartition, int]:
    with KafkaConsumer(bootstrap_servers=bootstrap_servers, enable_auto_commit=False) as consumer:
        ends = consumer.end_offsets(list(partitions(run.topics)))
    if sum(ends.values()) != events:
        raise errors.IllegalStateError(f"{events} events were sent, but the topics contain {sum(ends.values())}")
    return ends


def main(arguments: list[str] | None = None) -> int:
    """Run the replay, and return the exit code."""
    parser = argparse.ArgumentParser(prog="ottla_pipelines.ingest.replay", description=__doc__)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--seconds", type=float)
    args = parser.parse_args(arguments)
    try:
        replay(Run.load(args.run), args.bootstrap_servers, args.rate, args.seconds)
    except (errors.KafkaError, OSError) as error:
        print(f"replay: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
