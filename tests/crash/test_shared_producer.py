"""Sixteen threads share a producer while the broker is killed: no record is lost, duplicated or reordered."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.crash import filling_producer, shared_producer
from tests.crash.process import BrokerProcess
from tests.effort import repeats
from tests.interop.steady import new_topic

from ottla import KafkaConsumer, TopicPartition

pytestmark = pytest.mark.slow

np = pytest.importorskip("numpy")

RECORDS = int(os.environ.get("OTTLA_RECORDS", repeats(200_000, 400_000)))
"""For a manual run with five million: OTTLA_RECORDS=5000000."""
PARTITIONS = 6
SECONDS = 600
OVERHEAD = 0.1
"""Memory of buffered records beyond buffer.memory, as a fraction of it: objects of batches, and rounding by malloc …"""
OVERHEAD_BYTES = 8 << 20
"""… and memory of the threads and the requests in flight."""


def finished(program: subprocess.Popen[bytes]) -> dict[str, Any]:
    out, _ = program.communicate(timeout=SECONDS)
    assert program.returncode == 0
    reported: dict[str, Any] = json.loads(out)
    return reported


def numbers_in(bootstrap: str, topic: str) -> list[Any]:
    """Return the records' numbers, as an array for each partition, in offset order."""
    result: list[Any] = []
    with KafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        for p in range(PARTITIONS):
            tp = TopicPartition(topic, p)
            consumer.assign([tp])
            consumer.seek_to_beginning(tp)
            (end,) = consumer.end_offsets([tp]).values()
            parts = []
            while consumer.position(tp) < end:
                for columns in consumer.poll_batch(timeout_ms=1000).values():
                    values = np.frombuffer(columns.values.data, dtype=np.uint8)
                    rows = values.reshape(-1, shared_producer.VALUE_BYTES)
                    parts.append(np.ascontiguousarray(rows[:, :8]).view(">i8").ravel())
            result.append(np.concatenate(parts) if parts else np.zeros(0, dtype=">i8"))
    return result


def test_sixteen_threads_share_a_producer_through_kills(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    dice = random.Random(seed)
    failed_file = tmp_path / "failed"
    with BrokerProcess(tmp_path / "data") as broker:
        topic = new_topic(broker.bootstrap, PARTITIONS, "shared")
        command = [sys.executable, "-m", "tests.crash.shared_producer", broker.bootstrap, topic]
        program = subprocess.Popen([*command, str(RECORDS), str(failed_file)], stdout=subprocess.PIPE)
        kills = 0
        while program.poll() is None:
            threading.Event().wait(dice.uniform(0.2, 1.5))
            broker.kill()
            broker.start()
            kills += 1
        reported = finished(program)
        print(f"{kills} kills: {reported}")
        assert reported["once"] == RECORDS, "a future did not complete exactly once"
        assert reported["buffer_bytes_in_use"] == 0
        assert reported["threads"] == 1, "a thread is still running"
        failed = set(map(int, failed_file.read_text().split()))
        partitions = numbers_in(broker.bootstrap, topic)
    everything = np.concatenate(partitions)
    assert len(np.unique(everything)) == len(everything), "a record is duplicated"
    missing = set(np.setdiff1d(np.arange(RECORDS), everything).tolist())
    assert missing <= failed, "an acknowledged record is lost"
    for numbers in partitions:
        for key in range(shared_producer.KEYS):
            of_key = numbers[numbers % shared_producer.KEYS == key]
            # Records of different threads have no order, but all records of a key are sent by one thread.
            assert (np.diff(of_key) > 0).all(), f"the records of key {key} are out of order"


def test_producer_memory_stays_within_buffer_memory_and_overhead(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        topic = new_topic(broker.bootstrap, PARTITIONS, "filled")
        command = [sys.executable, "-m", "tests.crash.filling_producer", broker.bootstrap, topic, str(broker.pid)]
        output = finished(subprocess.Popen(command, stdout=subprocess.PIPE))
    print(output)
    assert output["records"] > 100_000
    assert output["bytes"] <= filling_producer.BUFFER_MEMORY * (1 + OVERHEAD) + OVERHEAD_BYTES
    assert output["all_free"], "a buffer was not returned to the pool"
