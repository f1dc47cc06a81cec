"""CPU seconds per million records of the clients, by way of sending and reading.

    python -m benchmarks.clients [--bootstrap HOST:PORT] [--records 1000000] [--only send,poll]

Without --bootstrap an embedded broker serves. Every way runs in a process of its own, after 10,000 records that warm it
up; compare CPU seconds, and only within one run, as wall time scatters on shared cores. Values have 100 bytes, keys 10,
one partition, acks=all. `confluent` rows appear where confluent-kafka is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import time
import uuid
from collections.abc import Callable

KEYS = [b"k%09d" % i for i in range(1000)]
VALUES = [(b"%08d" % i) * 12 + b"abcd" for i in range(1000)]
BATCH_ROWS = 10_000
BATCH_BYTES = 65_536


def send(bootstrap: str, topic: str, count: int) -> None:
    """One by one."""
    from ottla import KafkaProducer

    with KafkaProducer(bootstrap_servers=bootstrap, batch_size=BATCH_BYTES) as producer:
        for i in range(count):
            producer.send(topic, VALUES[i % 1000], KEYS[i % 1000])
        producer.flush(120)


def send_lists(bootstrap: str, topic: str, count: int) -> None:
    """Lists of 10,000."""
    _send_batches(bootstrap, topic, count, VALUES * (BATCH_ROWS // 1000), KEYS * (BATCH_ROWS // 1000))


def send_arrow(bootstrap: str, topic: str, count: int) -> None:
    """Arrow arrays of 10,000."""
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
    """poll() with up to 10,000 records."""
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
    """for record in consumer."""
    from ottla import KafkaConsumer, TopicPartition

    with KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        size = 0
        for seen, row in enumerate(consumer, 1):
            size += len(row.value)
            if seen >= count:
                return


def columns(bootstrap: str, topic: str, count: int) -> None:
    """poll_batch()."""
    from ottla import KafkaConsumer, TopicPartition

    with KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        seen = 0
        while seen < count:
            seen += sum(found.rows for found in consumer.poll_batch(timeout_ms=500).values())


def confluent_send(bootstrap: str, topic: str, count: int) -> None:
    """confluent-kafka, one by one."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "batch.size": BATCH_BYTES}
    producer = Producer({**settings, "batch.num.messages": 1_000_000, "queue.buffering.max.messages": 2_000_000})
    for i in range(count):
        producer.produce(topic, VALUES[i % 1000], KEYS[i % 1000])
    producer.flush(120)


def confluent_poll(bootstrap: str, topic: str, count: int) -> None:
    """confluent-kafka, poll()."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "queued.min.messages": 1_000_000}
    consumer = Consumer({**settings, "fetch.queue.backoff.ms": 5, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen = size = 0
    while seen < count:
        message = consumer.poll(1.0)
        if message is not None:
            size += len(message.value())
            seen += 1
    consumer.close()


SENDING: dict[str, Callable[[str, str, int], None]] = {
    "send": send,
    "send_lists": send_lists,
    "send_arrow": send_arrow,
    "confluent_send": confluent_send,
}
READING: dict[str, Callable[[str, str, int], None]] = {
    "poll": poll,
    "iterate": iterate,
    "columns": columns,
    "confluent_poll": confluent_poll,
}


def measure(name: str, bootstrap: str, topic: str, count: int) -> None:
    """Run one way here, and print what it took."""
    way = {**SENDING, **READING}[name]
    way(bootstrap, topic, BATCH_ROWS)
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    way(bootstrap, topic, count)
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"per_second": count / seconds, "cpu": cpu / count * 1e6, "mb": after.ru_maxrss / 1024}))


def in_a_process(name: str, bootstrap: str, topic: str, count: int) -> None:
    """Run one way in a fresh process and print its row."""
    command = [sys.executable, "-m", "benchmarks.clients", "--way", name, "--bootstrap", bootstrap]
    command += ["--topic", topic, "--records", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"{name:16} {found['per_second']:>11,.0f} {found['cpu']:>10.2f} {found['mb']:>8.0f}", flush=True)


def main() -> None:
    """Measure every way in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--topic", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        measure(arguments.way, arguments.bootstrap, arguments.topic, arguments.records)
        return
    if arguments.bootstrap:
        compare(arguments.bootstrap, arguments.records, arguments.only)
        return
    from ottla import Broker

    with Broker() as broker:
        compare(broker.bootstrap_servers, arguments.records, arguments.only)


def compare(bootstrap: str, count: int, only: str) -> None:
    """The table."""
    from ottla import KafkaAdminClient, NewTopic

    wanted = [name for name in (*SENDING, *READING) if not only or name in only.split(",")]
    if importlib.util.find_spec("confluent_kafka") is None:
        wanted = [name for name in wanted if not name.startswith("confluent")]
    print(f"{'':16} {'records/s':>11} {'CPU s/M':>10} {'RSS MB':>8}")
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        full = f"bench-{uuid.uuid4().hex[:8]}"
        admin.create_topics([NewTopic(full, 1, 1)])
        if any(name in READING for name in wanted):
            send_lists(bootstrap, full, count)
        for name in wanted:
            topic = full
            if name in SENDING:
                topic = f"bench-{uuid.uuid4().hex[:8]}"
                admin.create_topics([NewTopic(topic, 1, 1)])
            in_a_process(name, bootstrap, topic, count)
            if topic != full:
                admin.delete_topics([topic])
        admin.delete_topics([full])


if __name__ == "__main__":
    main()
