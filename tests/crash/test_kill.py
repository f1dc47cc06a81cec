"""kill -9 of the broker with acks=all, an fsync per batch, and torn tails: no acknowledged record is lost."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest
from tests.crash.process import BrokerProcess
from tests.effort import repeats

from ottla import KafkaConsumer, KafkaProducer, TopicPartition
from ottla.errors import KafkaError
from ottla.model import RecordMetadata
from ottla.records.batch import split

pytestmark = pytest.mark.slow

PARTITIONS = 3
ROUNDS = repeats(6, 20)
TOPIC = "kept"
MAX_TORN = 100


class Load:
    """A producer that sends numbered records until its broker is killed, and records which ones were acknowledged."""

    def __init__(self, bootstrap: str, first: int) -> None:
        self.acked: dict[tuple[int, int], bytes] = {}
        self.sent = first
        self._enough = threading.Event()
        self._stop = threading.Event()
        self._bootstrap = bootstrap
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait_for_acks(self) -> None:
        assert self._enough.wait(30), "nothing was acknowledged"

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks="all",
            linger_ms=1,
            max_block_ms=2000,
            request_timeout_ms=2000,
            delivery_timeout_ms=3000,
        )
        try:
            while not self._stop.is_set():
                value = b"%d " % self.sent + b"x" * (self.sent % 300)
                future = producer.send(TOPIC, value, partition=self.sent % PARTITIONS)
                future.add_callback(lambda where, v=value: self._acknowledged(where, v))
                self.sent += 1
                if self.sent % 50 == 0:
                    self._stop.wait(0.001)
        except KafkaError:
            pass  # the broker was killed: unacknowledged records may be lost
        finally:
            producer.close(timeout=0)

    def _acknowledged(self, where: RecordMetadata, value: bytes) -> None:
        self.acked[where.partition, where.offset] = value
        if len(self.acked) >= 100:
            self._enough.set()


def tear(data: Path, partition: int, acked_offset: int, r: random.Random) -> str:
    """Truncate or corrupt up to 100 bytes at the end of the active segment, but no acknowledged batch."""
    segment = max((data / f"{TOPIC}-{partition}").glob("*.log"))
    content = bytearray(segment.read_bytes())
    remaining = 0
    for header, _, end in split(content):
        if header.base_offset <= acked_offset:
            remaining = end
    loose = len(content) - remaining
    how = r.choice(["cut", "garble", "append"])
    if how == "append" or loose == 0:
        # as after an interrupted write: the start of a batch, or random bytes
        torn = bytes(content[:MAX_TORN]) if r.random() < 0.5 and content else r.randbytes(MAX_TORN)
        content += torn[: r.randint(1, MAX_TORN)]
    elif how == "cut":
        del content[-min(loose, r.randint(1, MAX_TORN)) :]
    else:
        for i in range(min(loose, r.randint(1, MAX_TORN))):
            content[-1 - i] ^= r.randint(1, 255)
    segment.write_bytes(content)
    return how


def read_all(bootstrap: str) -> dict[tuple[int, int], bytes]:
    partitions = [TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
    result: dict[tuple[int, int], bytes] = {}
    with KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(tp) < ends[tp] for tp in partitions):
            for records in consumer.poll(1000).values():
                for record in records:
                    result[record.partition, record.offset] = record.value
    return result


def test_killed_broker_loses_no_acknowledged_record(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    r = random.Random(seed)
    acked: dict[tuple[int, int], bytes] = {}
    sent = 0
    broker = BrokerProcess(tmp_path / "data", num_partitions=PARTITIONS, log_flush_interval_messages=1)
    for round_number in range(ROUNDS):
        with broker:
            load = Load(broker.bootstrap, sent)
            load.wait_for_acks()
            threading.Event().wait(r.uniform(0, 0.3))
            broker.kill()
            load.stop()
        acked.update(load.acked)
        sent = load.sent
        for partition in range(PARTITIONS):
            last = max((o for p, o in acked if p == partition), default=-1)
            tear(tmp_path / "data", partition, last, r)
        with broker:
            records = read_all(broker.bootstrap)
            assert broker.stop() == 0
        lost = {where: value for where, value in acked.items() if records.get(where) != value}
        assert not lost, f"seed {seed}, round {round_number}: {len(lost)} of {len(acked)} acknowledged records are lost"
        for partition in range(PARTITIONS):
            offsets = sorted(o for p, o in records if p == partition)
            assert offsets == list(range(len(offsets))), f"seed {seed}: partition {partition} has gaps"
    assert len(acked) > ROUNDS * 100
