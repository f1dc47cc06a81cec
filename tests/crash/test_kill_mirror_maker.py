"""kill -9 of `ottla mirror-maker` while it copies: every record arrives at the target once and in order."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.effort import repeats
from tests.interop.eventually import eventually
from tests.mirroring import mm2_properties
from tests.whole_topic import whole_topic

from ottla import Broker, KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic, TopicPartition

pytestmark = pytest.mark.slow

TOPIC = "numbers"
REMOTE = f"A.{TOPIC}"
PARTITIONS = 3
RECORDS = 60_000
KILLS = repeats(2, 8)
SECONDS = 120.0


def fill(address: str) -> None:
    with KafkaAdminClient(bootstrap_servers=address) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
    with KafkaProducer(bootstrap_servers=address) as producer:
        for number in range(RECORDS):
            headers = [("number", b"%d" % number)] if number % 1000 < 100 else None
            producer.send(TOPIC, b"%d" % number, headers=headers, partition=number % PARTITIONS)


def copied(address: str) -> list[tuple[int, int]]:
    """Return partition and number of all committed records of the target."""
    records = whole_topic(address, REMOTE, PARTITIONS, isolation_level="read_committed")
    return [(record.partition, int(record.value)) for record in records]


def end(address: str) -> int:
    """Return the sum of the end offsets of the target's partitions, which include markers."""
    partitions = [TopicPartition(REMOTE, p) for p in range(PARTITIONS)]
    with KafkaConsumer(bootstrap_servers=address) as consumer:
        if REMOTE not in consumer.topics():
            return 0
        return sum(consumer.end_offsets(partitions).values())


@pytest.mark.parametrize("support", ["enabled", "disabled"])
def test_killed_mirror_maker_copies_every_record(tmp_path: Path, support: str) -> None:
    rng = random.Random(7)
    with Broker() as a, Broker() as b:
        fill(a.bootstrap_servers)
        target = b.bootstrap_servers
        # Small fetches make it slow enough to be killed while it copies.
        configs = {"exactly_once_source_support": support, "emit_heartbeats_enabled": "false"}
        configs |= {"A.consumer.max.partition.fetch.bytes": "1000", "A.consumer.fetch.max.bytes": "1000"}
        properties = tmp_path / "mm2.properties"
        pairs = mm2_properties(a.bootstrap_servers, target, **configs)
        properties.write_text("".join(f"{name}={value}\n" for name, value in pairs.items()))
        command = [sys.executable, "-m", "ottla", "mirror-maker", str(properties), "--log-level", "error"]
        interrupted = 0
        for _ in range(KILLS):
            before = end(target)
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
                eventually(lambda ends=before: end(target) > ends, SECONDS)  # type: ignore[misc]
                time.sleep(rng.uniform(0, 0.1))  # at any point of a transaction
                process.kill()
            complete = len(set(copied(target))) == RECORDS
            if complete:
                break
            interrupted += 1
        assert interrupted >= 2, "the copy was complete before two kills"
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            eventually(lambda: len(set(copied(target))) == RECORDS, SECONDS)
            process.terminate()
        records = copied(target)
    expected = [(p, number) for p in range(PARTITIONS) for number in range(p, RECORDS, PARTITIONS)]
    if support == "enabled":
        assert records == expected
    else:
        assert list(dict.fromkeys(records)) == expected
