"""Measure how long a record takes from a producer to a consumer, as kafka-e2e-latency.sh does."""

from __future__ import annotations

import argparse
import json
import random
import time
from typing import Any, Final

from ottla.cli.framework.command import Command, CommandFailedError
from ottla.cli.framework.connection import check_positive, client_options, connection, without_serialization
from ottla.cli.framework.options import JSON, Option
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.topics.topics import NewTopic
from ottla.client.consumer.consumer import KafkaConsumer
from ottla.client.producer.producer import KafkaProducer
from ottla.errors import ConfigurationError
from ottla.model import TopicPartition

POLL_MS: Final = 60_000
REPORT_EVERY: Final = 1000
SHARES: Final = {"50": 0.5, "99": 0.99, "99.9": 0.999}
"""The percentiles to print, and the share of records that each stands for."""
Headers = list[tuple[str, bytes | None]]


def run(args: argparse.Namespace) -> int:
    """Send records one by one, and wait for each to arrive at the consumer. Print the average latency and percentiles.

    Raises ConfigurationError for invalid options, and CommandFailedError if a record does not arrive or the topic has
    other producers.
    """
    check_positive(args, "num_records")
    if args.producer_acks not in ("1", "all"):
        raise ConfigurationError(
            "Invalid value for --producer-acks. Latency testing requires synchronous acknowledgement. "
            "Please use '1' or 'all'."
        )
    options = without_serialization(client_options(args))
    reading = {**options, "enable.auto.commit": False, "auto.offset.reset": "latest", "fetch.max.wait.ms": 0}
    writing = {**options, "acks": args.producer_acks, "linger.ms": 0, "enable.idempotence": False}
    with KafkaConsumer(reading) as consumer:
        if args.topic not in consumer.topics():
            _create(options, args)
        consumer.assign([TopicPartition(args.topic, p.partition) for p in consumer.partitions_for(args.topic)])
        consumer.seek_to_end()
        for tp in consumer.assignment():
            consumer.position(tp)
        with KafkaProducer(writing) as producer:
            latencies = _measure(producer, consumer, args)
    _report(latencies, args)
    return 0


def _create(options: dict[str, Any], args: argparse.Namespace) -> None:
    if not args.json:
        print(f'Topic "{args.topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1')
    with KafkaAdminClient(options) as admin:
        admin.create_topics([NewTopic(args.topic, 1, 1)], wait_for_metadata=True)


def _measure(producer: KafkaProducer, consumer: KafkaConsumer, args: argparse.Namespace) -> list[int]:
    """Return the latency of each record in nanoseconds: the time from send() until the consumer has received it."""
    latencies = []
    for number in range(args.num_records):
        key = _random(args.record_key_size) if args.record_key_size else None
        value = _random(args.record_size)
        headers: Headers = [
            (_random(args.record_header_key_size).decode(), _random(args.record_header_size))
            for _ in range(args.num_headers)
        ]
        began = time.perf_counter_ns()
        producer.send(args.topic, value, key, headers).get(POLL_MS / 1000)
        polled = consumer.poll(POLL_MS)
        elapsed = time.perf_counter_ns() - began
        records = [record for batch in polled.values() for record in batch]
        if not records:
            raise CommandFailedError(f"poll() timed out before finding a result (timeout:[{POLL_MS}ms])")
        if len(records) != 1 or (records[0].key, records[0].value) != (key, value):
            raise CommandFailedError(
                f"The topic {args.topic} has other producers: expected the record of this test, and got {len(records)}"
            )
        if number % REPORT_EVERY == 0 and not args.json:
            print(f"{number}\t{elapsed / 1e6}", flush=True)
        latencies.append(elapsed)
    return latencies


def _random(length: int) -> bytes:
    return bytes([random.randrange(65, 91)]) * length


def _report(latencies: list[int], args: argparse.Namespace) -> None:
    average = sum(latencies) / len(latencies) / 1e6
    ordered = sorted(latencies)
    by_share = {name: ordered[int(len(ordered) * share)] for name, share in SHARES.items()}
    if args.json:
        percentiles = {f"p{name}_ms": ns / 1e6 for name, ns in by_share.items()}
        print(json.dumps({"records": len(latencies), "average_ms": average, **percentiles}))
        return
    print(f"Avg latency: {average:.4f} ms")
    print("Percentiles: " + ", ".join(f"{name}th = {ns // 1_000_000}" for name, ns in by_share.items()))


COMMAND = Command(
    run=run,
    options=(
        *connection(),
        Option(
            "--topic",
            "topic of the test; if it does not exist, it is created with one partition and one replica",
            required=True,
        ),
        Option("--num-records N", "number of records to send, one by one", int, required=True),
        Option("--producer-acks ACKS", "acks of the producer: 1 (the leader) or all (in-sync replicas)", required=True),
        Option("--record-size BYTES", "size in bytes of each record's value", int, required=True),
        Option(
            "--record-key-size BYTES", "size in bytes of each record's key; 0: no key (the default)", int, default=0
        ),
        Option("--num-headers N", "number of headers of each record (default: 0)", int, default=0),
        Option("--record-header-key-size BYTES", "size in bytes of each header's key (default: 0)", int, default=0),
        Option("--record-header-size BYTES", "size in bytes of each header's value (default: 0)", int, default=0),
        JSON,
    ),
)
