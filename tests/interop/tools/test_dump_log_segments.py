"""Apache Kafka's DumpLogSegments reads our files without errors, and `ottla dump-log` prints the same output."""

import random
from pathlib import Path
from typing import Any

import pytest
from tests.interop.dumped_logs import compare, files

from ottla.clock import ManualClock
from ottla.config.topic import LogConfig
from ottla.coordinator.transaction.transaction import Transaction, TransactionState
from ottla.coordinator.transaction.transaction_records import tombstone, transaction_record
from ottla.model import TopicPartition
from ottla.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from ottla.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.protocol.versioned import encode_versioned
from ottla.records.builder import BatchBuilder
from ottla.records.conversion import down_converted
from ottla.storage.compaction import cleaner
from ottla.storage.log import Log
from ottla.storage.producer_state import ABORT, COMMIT, marker_record
from ottla.storage.recovery import open_log

pytestmark = pytest.mark.interop

NOW = 1_700_000_000_000
CONFIG = {"segment_bytes": 20_000, "index_interval_bytes": 500, "file_delete_delay_ms": 0}


def append(log: Log, *rows: Any, codec: Any = 0, **options: Any) -> None:
    builder = BatchBuilder(bytearray(100_000), codec)
    for row in rows:
        assert builder.append(*row)
    data = memoryview(bytearray(builder.close(**options)))
    log.append(data, leader_epoch=log.log_end_offset // 100, origin_client=not options.get("control", False))
    log.high_watermark = log.log_end_offset


def fill(log: Log, rng: random.Random, count: int) -> None:
    """Append batches of all codecs, plain, idempotent and transactional, and transaction markers."""
    sequence = 0
    for i in range(count):
        times = [NOW + i * 10 + rng.randrange(10) for _ in range(rng.randint(1, 8))]
        rows = [
            (t, b"k%d" % rng.randrange(30), rng.choice([None, b"v%d" % i * 9]), [("h", b"x"), ("i", None)][: j % 3])
            for j, t in enumerate(times)
        ]
        if i % 3:
            append(log, *rows, codec=i % 5)
            continue
        append(log, *rows, producer_id=7, producer_epoch=1, base_sequence=sequence, transactional=True)
        sequence += len(rows)
        if i % 9 == 0:
            marker = (NOW + i * 10, *marker_record(rng.choice([ABORT, COMMIT]), 4))
            append(log, marker, producer_id=7, producer_epoch=1, transactional=True, control=True)


def fill_old(log: Log, rng: random.Random, count: int) -> None:
    """Append batches that can be stored as messages of format 0 and 1."""
    for i in range(count):
        rows = [
            (NOW + i * 10 + rng.randrange(10), b"k%d" % rng.randrange(30), rng.choice([None, b"v%d" % i * 9]))
            for _ in range(rng.randint(1, 8))
        ]
        append(log, *rows, codec=i % 4)


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Logs after a close, during writes, after a kill and recovery, and after compaction."""
    root = tmp_path_factory.mktemp("logs")
    clock = ManualClock(NOW)

    def make(name: str, **config: Any) -> Log:
        return open_log(root / name, TopicPartition(name, 0), LogConfig(**{**CONFIG, **config}), clock=clock)

    rng = random.Random(11)
    for name in ("closed", "open", "killed", "append_time"):
        log = make(name, message_timestamp_type="LogAppendTime" if name == "append_time" else "CreateTime")
        fill(log, rng, 150)
        if name == "killed":
            log.close_without_flush()
            with log.active.path(".log").open("ab") as file:
                file.write(b"torn")
            log = make(name)
        if name != "open":
            log.close()
    compacted = make("compacted", cleanup_policy=("compact",))
    fill(compacted, rng, 150)
    end = (NOW, *marker_record(COMMIT, 4))
    append(compacted, end, producer_id=7, producer_epoch=1, transactional=True, control=True)
    compacted.roll()
    cleaner.clean(compacted, 0)
    compacted.close()
    for magic in (0, 1):
        log = make(f"format_{magic}", message_format=magic)
        fill_old(log, rng, 150)
        log.close()
    adopted = make("adopted", message_format=1, cleanup_policy=("compact",))
    for magic in (0, 1, 2):
        adopted.config = adopted.config._replace(message_format=magic)
        fill_old(adopted, rng, 100)
    adopted.roll()
    cleaner.clean(adopted, 0)
    fill_old(adopted, rng, 50)
    adopted.close_without_flush()
    make("adopted", cleanup_policy=("compact",)).close()
    return {path.name: path for path in root.iterdir()}


NAMES = ["closed", "open", "killed", "append_time", "compacted"]
OLD = ["format_0", "format_1", "adopted"]


@pytest.mark.parametrize("name", [*NAMES, *OLD])
def test_dump_log_prints_logs_as_kafka_which_finds_no_errors(directories: Any, name: Any) -> None:
    outputs = compare("--deep-iteration", "--print-data-log", "--files", files(directories[name], ".log"))
    assert "isvalid: true" in outputs
    assert "isvalid: false" not in outputs
    assert "invalid bytes" not in outputs
    compare("--files", files(directories[name], ".log"))
    compare("--print-data-log", "--skip-record-metadata", "--files", files(directories[name], ".log"))


@pytest.mark.parametrize("name", [*NAMES, *OLD])
def test_kafka_finds_no_mismatch_between_indexes_and_logs(directories: Any, name: Any) -> None:
    if name == "open":
        pytest.skip("a running broker has zeros after the index entries, in Kafka as well")
    outputs = compare("--files", files(directories[name], ".index", ".timeindex"))
    for complaint in ("Mismatches", "Found timestamp", "not found", "out of order", "Exception"):
        assert complaint not in outputs
    compare("--verify-index-only", "--files", files(directories[name], ".index", ".timeindex"))
    outputs = compare("--index-sanity-check", "--files", files(directories[name], ".index", ".timeindex"))
    assert "passed sanity check" in outputs


@pytest.mark.parametrize("name", NAMES)
def test_dump_log_prints_producer_snapshots_and_transaction_indexes_as_kafka(directories: Any, name: Any) -> None:
    outputs = compare("--files", files(directories[name], ".snapshot"))
    assert "producerId: 7 producerEpoch: 1 coordinatorEpoch: 4" in outputs
    if name != "compacted":  # compaction has removed the aborted records
        assert "lastStableOffset" in compare("--files", files(directories[name], ".txnindex"))


def test_dump_log_prints_group_records_as_kafka(tmp_path: Path) -> None:
    log = open_log(tmp_path / "offsets", TopicPartition("__consumer_offsets", 0), LogConfig())
    key = encode_versioned(OffsetCommitKey(group="g", topic="t", partition=1), 1)
    rows = [
        (NOW, key, encode_versioned(OffsetCommitValue(offset=5, metadata='m"é', commit_timestamp=NOW), version))
        for version in range(4)
    ]
    group = encode_versioned(GroupMetadataKey(group="g"), 2)
    member = MemberMetadata(
        member_id="m-1",
        client_id="c",
        client_host="/127.0.0.1",
        session_timeout=45_000,
        subscription=encode_versioned(ConsumerProtocolSubscription(topics=["t"], user_data=b"xy"), 1),
        assignment=encode_versioned(
            ConsumerProtocolAssignment(assigned_partitions=[TopicPartitions(topic="t", partitions=[0, 1])]), 0
        ),
    )
    for kind in ("consumer", "connect"):
        value = GroupMetadataValue(protocol_type=kind, generation=4, protocol="range", leader="m-1", members=[member])
        rows += [(NOW, group, encode_versioned(value, version)) for version in range(5)]
    append(log, *rows, (NOW, key, None), (NOW, group, None), (NOW, b"\0\x63?", b"?"))
    log.close()
    compare("--offsets-decoder", "--files", files(log.dir, ".log"))
    compare("--offsets-decoder", "--skip-record-metadata", "--files", files(log.dir, ".log"))


def test_dump_log_prints_transaction_records_as_kafka(tmp_path: Path) -> None:
    log = open_log(tmp_path / "state", TopicPartition("__transaction_state", 0), LogConfig())
    idle = Transaction("tx", 7, 0, timeout_ms=1000, update_ms=NOW)
    partitions = frozenset({TopicPartition("a", 0), TopicPartition("b", 2), TopicPartition("a", 3)})
    busy = Transaction("ty", 7, 3, 1000, TransactionState.ONGOING, partitions, NOW, NOW, 3, 9, version=2)
    made = [transaction_record(t, version) for t in (idle, busy) for version in (0, 1)]
    append(log, *((NOW, record.key, record.value) for record in (*made, tombstone("tx"))))
    log.close()
    outputs = compare("--transaction-log-decoder", "--files", files(log.dir, ".log"))
    assert '"previousProducerId":3,"nextProducerId":9' in outputs
    compare("--transaction-log-decoder", "--skip-record-metadata", "--files", files(log.dir, ".log"))


def test_dump_log_prints_old_message_formats_as_kafka(tmp_path: Path) -> None:
    builder = BatchBuilder(bytearray(5000), 1, base_offset=42)
    for i in range(5):
        builder.append(NOW + i, b"k%d" % i, b"value")
    batch = builder.close()
    path = tmp_path / "00000000000000000042.log"
    path.write_bytes(down_converted(batch, 0) + down_converted(batch, 1))
    compare("--print-data-log", "--files", str(path))
    compare("--files", str(path))


def test_dump_log_reports_damaged_segments_as_kafka(directories: Any, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    data = bytearray((directories["closed"] / path.name).read_bytes()[:5000])
    data[70] ^= 1
    path.write_bytes(data)
    outputs = compare("--files", str(path))
    assert "isvalid: false" in outputs
    assert "invalid bytes at the end" in outputs
