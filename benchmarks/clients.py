"""CPU seconds per million records of the clients and their peers, for each method of sending and reading.

    python -m benchmarks clients [--bootstrap HOST:PORT] [--records 1000000] [--rounds 3] [--only send,poll] [--save]

Without --bootstrap, an embedded broker is used. Each method runs in a new process, after 10,000 records of warm-up; all
methods take turns in each round, and the table has the medians. Compare CPU seconds of one run only, because wall time
varies on shared cores. Values have 100 bytes, keys 10, one partition, acks=all. There are rows for confluent-kafka,
kafka-python and aiokafka if they are installed; slow ones send or read fewer records.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks import peers, results
from benchmarks.peers import BATCH_BYTES, KEYS, VALUES
from benchmarks.results import Figure

BATCH_ROWS = 10_000


def send(bootstrap: str, topic: str, count: int) -> None:
    """Call send() for each record."""
    from ottla import KafkaProducer

    with KafkaProducer(bootstrap_servers=bootstrap, batch_size=BATCH_BYTES) as producer:
        for i in range(count):
            producer.send(topic, VALUES[i % 1000], KEYS[i % 1000])
        producer.flush(120)


def send_lists(bootstrap: str, topic: str, count: int) -> None:
    """Call send_batch() with lists of 10,000 values."""
    _send_batches(bootstrap, topic, count, VALUES * (BATCH_ROWS // 1000), KEYS * (BATCH_ROWS // 1000))


def send_arrow(bootstrap: str, topic: str, count: int) -> None:
    """Call send_batch() with Arrow arrays of 10,000 values."""
    import pyarrow as pa

    values = pa.array(VALUES * (BATCH_ROWS // 1000), pa.binary())
    _send_batches(bootstrap, topic, count, values, pa.array(KEYS * (BATCH_ROWS // 1000), pa.binary()))


def _send_batches(bootstrap: str, topic: str, count: int, values: object, keys: object) -> None:
    from ottla import KafkaProducer

    with KafkaProducer(bootstrap_servers=bootstrap, batch_size=BATCH_BYTES) as producer:
        for _ in range(count // BATCH_ROWS):
            producer.send_batch(topic, values, keys)
        producer.flush(120)


def poll(bootstrap: str, topic: str, count: int) -> None:
    """Call poll() for up to 10,000 records."""
    from ottla import KafkaConsumer, TopicPartition

    with KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=10_000) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        seen = size = 0
        while seen < count:
            for rows in consumer.poll(timeout_ms=500).values():
                seen += len(rows)
                for row in rows:
                    size += len(row.value)


def iterate(bootstrap: str, topic: str, count: int) -> None:
    """Iterate over the consumer."""
    from ottla import KafkaConsumer, TopicPartition

    with KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        size = 0
        for seen, row in enumerate(consumer, 1):
            size += len(row.value)
            if seen >= count:
                return


def columns(bootstrap: str, topic: str, count: int) -> None:
    """Call poll_batch()."""
    from ottla import KafkaConsumer, TopicPartition

    with KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        seen = 0
        while seen < count:
            seen += sum(batch.rows for batch in consumer.poll_batch(timeout_ms=500).values())


def aio_send(bootstrap: str, topic: str, count: int) -> None:
    """Call the asyncio producer's send() for each record."""
    from ottla.aio import KafkaProducer

    async def run() -> None:
        async with KafkaProducer(bootstrap_servers=bootstrap, batch_size=BATCH_BYTES) as producer:
            for i in range(count):
                await producer.send(topic, VALUES[i % 1000], KEYS[i % 1000])
            await producer.flush(120)

    asyncio.run(run())


def aio_poll(bootstrap: str, topic: str, count: int) -> None:
    """Call the asyncio consumer's poll() for up to 10,000 records."""

    async def run(consumer: Any) -> None:
        seen = size = 0
        while seen < count:
            for rows in (await consumer.poll(timeout_ms=500, max_records=10_000)).values():
                seen += len(rows)
                for row in rows:
                    size += len(row.value)

    asyncio.run(_with_aio_consumer(bootstrap, topic, run))


def aio_columns(bootstrap: str, topic: str, count: int) -> None:
    """Call the asyncio consumer's poll_batch()."""

    async def run(consumer: Any) -> None:
        seen = 0
        while seen < count:
            seen += sum(batch.rows for batch in (await consumer.poll_batch(timeout_ms=500)).values())

    asyncio.run(_with_aio_consumer(bootstrap, topic, run))


async def _with_aio_consumer(bootstrap: str, topic: str, run: Callable[[Any], Any]) -> None:
    from ottla import TopicPartition
    from ottla.aio import KafkaConsumer

    async with KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        await run(consumer)


class Way(NamedTuple):
    """A row: the function, the package that it needs, whether it sends, and its share of the records."""

    run: Callable[[str, str, int], None]
    package: str = "ottla"
    sends: bool = False
    share: float = 1.0


WAYS: dict[str, Way] = {
    "send": Way(send, sends=True),
    "aio send": Way(aio_send, sends=True),
    "confluent send": Way(peers.confluent_send, "confluent_kafka", sends=True),
    "kafka-python send": Way(peers.kafka_python_send, "kafka", sends=True, share=0.05),
    "aiokafka send": Way(peers.aiokafka_send, "aiokafka", sends=True, share=0.1),
    "send_batch lists": Way(send_lists, sends=True),
    "send_batch Arrow": Way(send_arrow, sends=True),
    "confluent batch": Way(peers.confluent_produce_batch, "confluent_kafka", sends=True),
    "poll": Way(poll),
    "aio poll": Way(aio_poll),
    "iterate": Way(iterate),
    "confluent poll": Way(peers.confluent_poll, "confluent_kafka"),
    "kafka-python poll": Way(peers.kafka_python_poll, "kafka", share=0.1),
    "aiokafka getmany": Way(peers.aiokafka_getmany, "aiokafka", share=0.3),
    "poll_batch": Way(columns),
    "aio poll_batch": Way(aio_columns),
    "confluent consume": Way(peers.confluent_consume, "confluent_kafka"),
}
RATIOS = (
    ("confluent send", "send"),
    ("kafka-python send", "send"),
    ("aiokafka send", "aio send"),
    ("confluent send", "send_batch lists"),
    ("confluent send", "send_batch Arrow"),
    ("confluent batch", "send_batch Arrow"),
    ("confluent poll", "iterate"),
    ("confluent poll", "poll"),
    ("confluent consume", "poll"),
    ("kafka-python poll", "poll"),
    ("aiokafka getmany", "aio poll"),
    ("confluent consume", "poll_batch"),
    ("aio send", "send"),
    ("aio poll", "poll"),
    ("aio poll_batch", "poll_batch"),
)
"""Pairs of which the CPU per record is compared: how many times that of the second the first one takes."""


def measure(name: str, bootstrap: str, topic: str, count: int) -> None:
    """Run one method in this process, and print its figures."""
    way = WAYS[name].run
    way(bootstrap, topic, BATCH_ROWS)
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    way(bootstrap, topic, count)
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"per_second": count / seconds, "cpu": cpu / count * 1e6, "mb": after.ru_maxrss / 1024}))


def in_a_process(name: str, bootstrap: str, topic: str, count: int) -> dict[str, float]:
    """Run one method in a new process, and return its figures."""
    command = [sys.executable, "-m", "benchmarks", "clients", "--way", name, "--bootstrap", bootstrap]
    command += ["--topic", topic, "--records", str(count)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} has failed: {done.stderr}")
    document: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return document


def report(what: str) -> None:
    """Print the progress."""
    if sys.stderr.isatty():
        print(f"\r{what:40}", end="\r", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure all methods in turns."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks clients", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results and a row of the history")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--topic", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.way:
        measure(arguments.way, arguments.bootstrap, arguments.topic, arguments.records)
        return 0
    only = arguments.only.split(",") if arguments.only else list(WAYS)
    names = [name for name in only if importlib.util.find_spec(WAYS[name].package) is not None]
    if arguments.bootstrap:
        figures = compare(arguments.bootstrap, arguments.records, arguments.rounds, names)
    else:
        from ottla import Broker

        with Broker() as broker:
            figures = compare(broker.bootstrap_servers, arguments.records, arguments.rounds, names)
    show(figures)
    if arguments.save:
        pairs = [(own, peer) for own, peer in RATIOS if {own, peer} <= set(names)]
        print(f"written: {results.save('clients', {'clients': figures}, pairs)}")
    return 0


def compare(bootstrap: str, count: int, rounds: int, names: list[str]) -> list[Figure]:
    """Measure all methods in turns, and print the table."""
    from ottla import KafkaAdminClient, NewTopic

    values: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        full = f"bench-{uuid.uuid4().hex[:8]}"
        admin.create_topics([NewTopic(full, 1, 1)])
        if not all(WAYS[name].sends for name in names):
            send_lists(bootstrap, full, count)
        for done in range(rounds):
            for name in names:
                report(f"round {done + 1} of {rounds}: {name}")
                topic = full
                if WAYS[name].sends:
                    topic = f"bench-{uuid.uuid4().hex[:8]}"
                    admin.create_topics([NewTopic(topic, 1, 1)])
                records = int(count * WAYS[name].share)
                values[name].append(in_a_process(name, bootstrap, topic, records))
                if topic != full:
                    admin.delete_topics([topic])
        admin.delete_topics([full])
    report("")
    return [
        Figure("CPU per million records", "s", False, {name: [v["cpu"] for v in values[name]] for name in names}),
        Figure("records", "1/s", True, {name: [v["per_second"] for v in values[name]] for name in names}),
        Figure("RSS", "MB", False, {name: [v["mb"] for v in values[name]] for name in names}),
    ]


def show(figures: list[Figure]) -> None:
    """Print the table of medians, and the ratios."""
    cpu, rate, memory = figures
    print(f"{'':18} {'records/s':>11} {'CPU s/M':>8} {'least':>7} {'most':>7} {'RSS MB':>7}")
    for name, spread in cpu.values.items():
        print(
            f"{name:18} {rate.median(name):>11,.0f} {cpu.median(name):>8.2f} {min(spread):>7.2f} {max(spread):>7.2f}"
            f" {memory.median(name):>7.0f}"
        )
    print(f"\n{'CPU per record':42} {'ratio':>6}   least … greatest")
    for peer, own in RATIOS:
        if {own, peer} <= set(cpu.values):
            ratios = cpu.ratios(peer, own)
            pair = f"{peer} : {own}"
            print(f"{pair:42} {statistics.median(ratios):>6.2f}   [{ratios[0]:.2f} … {ratios[-1]:.2f}]")
