"""kill -9 of the broker during transactions: committed transactions are complete, and none is torn."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from pathlib import Path

import pytest
from tests.crash.process import BrokerProcess
from tests.crash.transaction_load import PARTITIONS, RECORDS, SECONDS, TOPIC, Load

pytestmark = pytest.mark.slow

confluent_kafka = pytest.importorskip("confluent_kafka")

ROUNDS = 3
PRODUCERS = 3
COMMITS = 10
"""Number of commits of each producer before the broker is killed."""


def read_all(bootstrap: str) -> dict[tuple[str, int], set[int]]:
    """Return the records of each (producer, transaction) that a read_committed consumer reads."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, p, 0) for p in range(PARTITIONS)])
    result: dict[tuple[str, int], set[int]] = defaultdict(set)
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(SECONDS)
        assert message is not None, "the reader hangs"
        if message.error() is not None:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
            ended.add(message.partition())
            continue
        name, number, i = message.value().decode().split()
        assert int(i) not in result[name, int(number)], f"record {i} of {name} {number} is duplicated"
        result[name, int(number)].add(int(i))
    consumer.close()
    return result


def committed_offset(bootstrap: str, group: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    (committed,) = consumer.committed([confluent_kafka.TopicPartition(TOPIC, 0)], SECONDS)
    consumer.close()
    return int(committed.offset)


def abort_open_transactions(bootstrap: str, names: list[str]) -> None:
    """Initialize new instances of all producers, which aborts the open transactions of the old ones."""
    for name in names:
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": name}, logger=None)
        producer.init_transactions(SECONDS)


def test_killed_broker_neither_loses_nor_tears_a_transaction(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    dice = random.Random(seed)
    names = [f"producer-{i}" for i in range(PRODUCERS)]
    acked: set[tuple[str, int]] = set()
    aborted: set[tuple[str, int]] = set()
    first = dict.fromkeys(names, 1)
    broker = BrokerProcess(tmp_path / "data", num_partitions=PARTITIONS)
    for round_number in range(ROUNDS):
        with broker:
            loads = [Load(broker.bootstrap, name, first[name]) for name in names]
            for load in loads:
                load.wait_for_commits(COMMITS)
            threading.Event().wait(dice.uniform(0, 0.3))
            broker.kill()
            for load in loads:
                load.kill()
        for load in loads:
            first[load.name] = load.last + 1
            acked |= {(load.name, number) for number in load.ended["committed"]}
            aborted |= {(load.name, number) for number in load.ended["aborted"]}
        with broker:
            abort_open_transactions(broker.bootstrap, names)
            records = read_all(broker.bootstrap)
            offsets = {name: committed_offset(broker.bootstrap, name) for name in names}
            assert broker.stop() == 0
        where = f"seed {seed}, round {round_number}"
        assert not acked - records.keys(), f"{where}: committed transactions are lost"
        assert not aborted & records.keys(), f"{where}: rolled back transactions are read"
        torn = {key: seen for key, seen in records.items() if len(seen) != RECORDS}
        assert not torn, f"{where}: transactions are torn"
        for name in names:
            last = max(number for key, number in records if key == name)
            assert offsets[name] == last + 1, f"{where}: the offset of {name} is not that of its last transaction"
