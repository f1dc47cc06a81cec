"""One data directory, used by Apache Kafka and Ottla in turn: each reads and continues the logs of the other.

In CI Kafka is first killed and then stopped; `OTTLA_EXCHANGES=all` tests all four combinations.
"""

import os
import random
import time
from pathlib import Path

import pytest
from scripts import apache_kafka
from tests.interop.kafka_jars import kafka

from ottla import KafkaAdminClient, NewTopic
from ottla.config.topic import LogConfig
from ottla.coordinator.runtime.coordinator_log import partition_of
from ottla.coordinator.transaction.transaction import Transaction, TransactionState
from ottla.coordinator.transaction.transaction_records import read_key, read_transaction, transaction_record
from ottla.coordinator.transaction.transactions import RESULTS, fence
from ottla.model import TRANSACTION_STATE, TopicPartition
from ottla.net.ports import free_port
from ottla.records.builder import BatchBuilder
from ottla.records.decoder import decode_records, records
from ottla.storage.compaction import cleaner
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDir
from ottla.storage.producer_state import COMMIT, marker_record

pytestmark = [pytest.mark.interop, pytest.mark.slow]

TOPIC = "exchange"
TP = TopicPartition(TOPIC, 0)
Row = tuple[bytes | None, bytes | None]
SEGMENT_BYTES = 1 << 20
"""The minimum that Apache Kafka allows."""
CONFIG = LogConfig(segment_bytes=SEGMENT_BYTES)
ENDINGS = [(True, False), (False, True), (False, False), (True, True)]
if os.environ.get("OTTLA_EXCHANGES") != "all":
    ENDINGS = ENDINGS[:1]


def produce(bootstrap: str, seed: int, count: int) -> list[Row]:
    """Send records in transactions, of which every third is aborted, with all codecs; return the committed records."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    rng = random.Random(seed)
    remaining: list[Row] = []
    for i, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"t-{seed}-{i}",
                "compression.type": codec,
                "linger.ms": 5,
            }
        )
        producer.init_transactions(60)
        for n in range(3):
            producer.begin_transaction()
            rows: list[Row] = [
                (b"%d-%d-%d-%d" % (seed, i, n, j), rng.randbytes(rng.randrange(2000))) for j in range(count)
            ]
            for key, value in rows:
                producer.produce(TOPIC, value, key, 0)
            if n == 1:
                producer.flush(60)
                producer.abort_transaction(60)
            else:
                producer.commit_transaction(60)
                remaining += rows
    return remaining


def consume(bootstrap: str, count: int) -> list[Row]:
    """Return all committed records of the partition from its start."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "x", "isolation.level": "read_committed"}
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    result: list[Row] = []
    deadline = time.monotonic() + 60
    while len(result) < count and time.monotonic() < deadline:
        for message in consumer.consume(1000, 1):
            assert message.error() is None
            result.append((message.key(), message.value()))
    consumer.close()
    return result


def committed(log: Log) -> list[Row]:
    """Return the records that a read_committed consumer reads from our log."""
    aborted = log.aborted_transactions(0, log.log_end_offset)
    result: list[Row] = []
    for header, data in log.batches_from(0):
        rolled_back = any(
            a.producer_id == header.producer_id and a.first_offset <= header.base_offset <= a.last_offset
            for a in aborted
        )
        if not header.is_control and not rolled_back:
            result += [(r.key, r.value) for r in decode_records(data, 0, header)]
    return result


def append_ours(log: Log, seed: int, count: int) -> list[Row]:
    """Append the batches and the marker of a transaction to our log."""
    rng = random.Random(seed)
    rows: list[Row] = [(b"ours-%d-%d" % (seed, i), rng.randbytes(rng.randrange(3000))) for i in range(count)]
    epoch = log.leader_epochs.latest
    for i, (key, value) in enumerate(rows):
        builder = BatchBuilder(bytearray(5000), i % 5)
        builder.append(int(time.time() * 1000), key, value, [("from", b"ottla")])
        data = memoryview(bytearray(builder.close(900_000 + seed, 0, i, transactional=True)))
        log.append(data, leader_epoch=epoch)
    builder = BatchBuilder(bytearray(200))
    builder.append(int(time.time() * 1000), *marker_record(COMMIT, 0))
    data = memoryview(bytearray(builder.close(900_000 + seed, 0, -1, transactional=True, control=True)))
    log.append(data, leader_epoch=epoch, origin_client=False)
    log.high_watermark = log.log_end_offset
    return rows


@pytest.fixture(scope="module", autouse=True)
def _kafka_or_skip() -> None:
    reason = apache_kafka.missing()
    if reason:
        pytest.skip(f"Apache Kafka: {reason}")


@pytest.mark.parametrize("kills", ENDINGS, ids=str)
def test_log_written_by_kafka_and_ottla_in_turn_loses_no_record(tmp_path: Path, kills: tuple[bool, bool]) -> None:
    """`kills`: whether Kafka is killed or stopped, the first and the second time."""
    port = free_port(in_a_row=2)
    with kafka(tmp_path, port, kill=kills[0]) as bootstrap:
        with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, 1, 1, topic_configs={"segment.bytes": str(SEGMENT_BYTES)})])
        expected = produce(bootstrap, 1, 150)
        # Kafka responds to a commit before the marker is in the log; a kill in between would leave the transaction open
        assert consume(bootstrap, len(expected)) == expected

    with LogDir.open(tmp_path / "log", broker_id=1) as log_dir:
        log_dir.load(lambda tp: CONFIG)
        assert not log_dir.failed
        log = log_dir.logs[TP]
        assert log.topic_id
        assert committed(log) == expected
        assert len(log.segments) > 1
        assert len(log.aborted_transactions(0, log.log_end_offset)) == 5
        for segment in log.segments:
            segment.sanity_check()
        earliest = log.offset_for_time(0)
        assert earliest is not None
        assert earliest.offset == 0
        expected += append_ours(log, 7, 400)

    with kafka(tmp_path, port, kill=kills[1]) as bootstrap:
        assert consume(bootstrap, len(expected)) == expected
        expected += produce(bootstrap, 2, 100)
        assert consume(bootstrap, len(expected)) == expected

    with LogDir.open(tmp_path / "log", broker_id=1) as log_dir:
        log_dir.load(lambda tp: CONFIG)
        log = log_dir.logs[TP]
        assert committed(log) == expected
        offsets = [o for h, _ in log.batches_from(0) for o in (h.base_offset, h.last_offset)]
        assert offsets == sorted(offsets)
        log.high_watermark = log.log_end_offset
        log.roll()
        log.config = log.config._replace(cleanup_policy=("compact",))
        cleaner.clean(log, 0)

    with kafka(tmp_path, port) as bootstrap:
        records = consume(bootstrap, len(expected))
    assert records == expected, "compaction removed a record, although all keys are distinct"


def states_in(log_dir: LogDir) -> dict[str, Transaction]:
    """Return the transactions in the logs of `__transaction_state`."""
    result: dict[str, Transaction] = {}
    for tp, log in log_dir.logs.items():
        for _, data in log.batches_from(0) if tp.topic == TRANSACTION_STATE else ():
            for record in records(data):
                assert record.key is not None
                name = read_key(record.key)
                assert name is not None
                assert record.value is not None
                result[name] = read_transaction(name, record.value)
    return result


def append_state(log_dir: LogDir, transaction: Transaction) -> None:
    count = sum(tp.topic == TRANSACTION_STATE for tp in log_dir.logs)
    log = log_dir.logs[TopicPartition(TRANSACTION_STATE, partition_of(transaction.id, count))]
    record = transaction_record(transaction)
    builder = BatchBuilder(bytearray(500))
    builder.append(int(time.time() * 1000), record.key, record.value)
    epoch = max(log.leader_epochs.latest, 0)
    log.append(memoryview(bytearray(builder.close())), leader_epoch=epoch, origin_client=False)
    log.high_watermark = log.log_end_offset


def test_transaction_state_written_by_kafka_and_ottla_in_turn_is_loaded(tmp_path: Path) -> None:
    """Kafka completes a transaction that we have prepared to abort."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    port = free_port(in_a_row=2)
    with kafka(tmp_path, port) as bootstrap:
        expected = produce(bootstrap, 1, 6)
        left_open = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": "open"}, logger=None)
        left_open.init_transactions(60)
        left_open.begin_transaction()
        left_open.produce(TOPIC, b"never", partition=0)
        left_open.flush(60)

    now = int(time.time() * 1000)
    with LogDir.open(tmp_path / "log", broker_id=1) as log_dir:
        log_dir.load(lambda tp: CONFIG)
        states = states_in(log_dir)
        assert states["open"].state is TransactionState.ONGOING
        assert states["open"].partitions == {TP}
        assert {t.state for name, t in states.items() if name != "open"} <= set(RESULTS)
        append_state(log_dir, fence(states["open"], now, states["open"].version))
        append_state(log_dir, Transaction("ours", 12_345, 6, timeout_ms=5000, update_ms=now))

    with kafka(tmp_path, port) as bootstrap:
        assert consume(bootstrap, len(expected)) == expected
        with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
            described = admin.describe_transactions(["open", "ours"])
        assert described["open"].state == "CompleteAbort"
        actual = described["ours"]
        assert (actual.producer_id, actual.producer_epoch, actual.state) == (12_345, 6, "Empty")
