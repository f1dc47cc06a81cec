"""Log directories read without a broker and while one runs: the same rows as a consumer reads."""

from __future__ import annotations

import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.whole_topic import whole_topic

from ottla import Broker, KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic, TopicPartition
from ottla.errors import (
    ConfigurationError,
    CorruptBatchError,
    CorruptMessageError,
    KafkaStorageError,
    UnknownTopicOrPartitionError,
)
from ottla.records import legacy_message_set
from ottla.records.batch import reseal
from ottla.records.compression import SNAPPY
from ottla.records.decoder import Record
from ottla.spark.options.options import read_options
from ottla.spark.source.log_dir_source import LogDirReader, LogFiles
from ottla.spark.source.ranges import DataLossError
from ottla.storage.log_reader import ReadOnlyLog

PARTITIONS = 2


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    options = {"log.dirs": str(tmp_path), "log.segment.bytes": 20_000, "num.partitions": PARTITIONS}
    with Broker({**options, "replica.high.watermark.checkpoint.interval.ms": 50}) as running:
        yield running


def reader(log_dirs: Path, topic: str = "t", **options: str) -> LogDirReader:
    named = {name.replace("_", "."): value for name, value in options.items()}
    return LogDirReader(read_options({"ottla.log.dirs": str(log_dirs), "subscribe": topic, **named}, streaming=False))


def rows(log_dirs: Path, topic: str = "t", **options: str) -> list[tuple[Any, ...]]:
    """Return (partition, offset, key, value) of all rows that Spark would read."""
    reading = reader(log_dirs, topic, **options)
    result = []
    for partition in reading.partitions():
        for batch in reading.read(partition):
            columns = [batch[name].to_pylist() for name in ("partition", "offset", "key", "value")]
            result += list(zip(*columns, strict=True))
    return sorted(result)


def consumed(address: str, **options: Any) -> list[tuple[Any, ...]]:
    """Return (partition, offset, key, value) of all records that a consumer reads."""
    return [(r.partition, r.offset, r.key, r.value) for r in whole_topic(address, "t", PARTITIONS, **options)]


def send(address: str, count: int, **options: Any) -> None:
    with KafkaProducer(bootstrap_servers=address, batch_size=2000, **options) as producer:
        for i in range(count):
            producer.send("t", b"value %d" % i * 5, b"%d" % (i % 10), timestamp_ms=1_000_000 + i)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_log_dir_of_a_stopped_broker_has_every_row(broker: Broker, tmp_path: Path, codec: str) -> None:
    send(broker.bootstrap_servers, 2000, compression_type=codec)
    expected = consumed(broker.bootstrap_servers)
    broker.stop()
    assert len(expected) == 2000
    assert rows(tmp_path) == expected
    assert rows(tmp_path, minPartitions="7") == expected


def test_read_beside_a_running_broker_ends_at_the_high_watermark_checkpoint(broker: Broker, tmp_path: Path) -> None:
    send(broker.bootstrap_servers, 500)
    expected = consumed(broker.bootstrap_servers)
    while len(actual := rows(tmp_path)) < 500:
        assert actual == [row for row in expected if row in set(actual)], "a prefix of each partition"
    assert actual == expected


def test_whole_log_is_read_without_a_high_watermark_checkpoint(broker: Broker, tmp_path: Path) -> None:
    send(broker.bootstrap_servers, 300)
    expected = consumed(broker.bootstrap_servers)
    broker.stop()
    (tmp_path / "replication-offset-checkpoint").unlink()
    assert rows(tmp_path) == expected


def test_offsets_and_timestamps_limit_the_read_range(broker: Broker, tmp_path: Path) -> None:
    send(broker.bootstrap_servers, 1000)
    with KafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        times = consumer.offsets_for_times({TopicPartition("t", p): 1_000_500 for p in range(PARTITIONS)})
    expected = consumed(broker.bootstrap_servers)
    broker.stop()
    by_offset = rows(tmp_path, startingOffsets='{"t": {"0": 100, "1": 17}}', endingOffsets='{"t": {"0": 333, "1": -1}}')
    assert by_offset == [r for r in expected if (100 <= r[1] < 333 if r[0] == 0 else r[1] >= 17)]
    first = {tp.partition: at.offset for tp, at in times.items() if at is not None}
    assert rows(tmp_path, startingTimestamp="1000500") == [r for r in expected if r[1] >= first[r[0]]]


def test_deleted_records_are_not_read(broker: Broker, tmp_path: Path) -> None:
    send(broker.bootstrap_servers, 1000)
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition("t", 0): 123})
    expected = consumed(broker.bootstrap_servers)
    broker.stop()
    assert min(r[1] for r in expected if r[0] == 0) == 123
    assert rows(tmp_path) == expected


def test_read_committed_omits_aborted_and_open_transactions(broker: Broker, tmp_path: Path) -> None:
    address = broker.bootstrap_servers
    with KafkaProducer(bootstrap_servers=address, transactional_id="a") as producer:
        producer.init_transactions()
        for commit in (True, False, True):
            producer.begin_transaction()
            for i in range(20):
                producer.send("t", b"%s %d" % (b"kept" if commit else b"dropped", i), partition=i % 2)
            producer.flush()
            producer.commit_transaction() if commit else producer.abort_transaction()
    producer = KafkaProducer(bootstrap_servers=address, transactional_id="b")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"open", partition=0).get(10)
    expected = consumed(address, isolation_level="read_committed")
    broker.stop()
    producer.close(0)
    actual = rows(tmp_path, kafka_isolation_level="read_committed")
    assert actual == expected
    assert {row[3].split()[0] for row in actual} == {b"kept"}
    assert {row[3].split()[0] for row in rows(tmp_path)} == {b"kept", b"dropped", b"open"}


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_timestamps_are_looked_up_as_by_a_broker(broker: Broker, tmp_path: Path, level: str) -> None:
    """A transaction marker, which has the broker's time, ends the search; open transactions have no offsets."""
    address, tp = broker.bootstrap_servers, TopicPartition("t", 0)
    late = int(time.time() * 1000) + 600_000
    with KafkaProducer(bootstrap_servers=address, transactional_id="a") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"0", partition=0, timestamp_ms=1000)
        producer.commit_transaction()
    producer = KafkaProducer(bootstrap_servers=address, transactional_id="b")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"2", partition=0, timestamp_ms=late).get(10)
    times = (0, 1000, 1001, late, late + 1)
    with KafkaConsumer(bootstrap_servers=address, isolation_level=level) as consumer:
        records = [consumer.offsets_for_times({tp: at})[tp] for at in times]
    broker.stop()
    producer.close(0)
    files = LogFiles(reader(tmp_path, kafka_isolation_level=level).options)
    expected = [None if at is None else at.offset for at in records]
    assert expected == [0, 0, 1, 2 if level == "read_uncommitted" else None, None]
    assert [files.at_times({tp: at})[tp] for at in times] == expected


def test_message_sets_of_magic_0_and_1_are_read(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    records = [Record(i, i, 0, b"k", b"old %d" % i, []) for i in range(3)]
    old = legacy_message_set.encode_set(records[:1], 0, 0) + legacy_message_set.encode_set(records[1:], SNAPPY, 1)
    (directory / "00000000000000000000.log").write_bytes(old)
    assert rows(tmp_path) == [(0, i, b"k", b"old %d" % i) for i in range(3)]


@pytest.mark.parametrize("magic", [0, 1])
def test_compressed_message_of_magic_0_or_1_may_contain_any_number_of_messages(tmp_path: Path, magic: int) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    records = [Record(i, 1_000_000 + i, 0, None, b"%d" % i, []) for i in range(2500)]
    (directory / "00000000000000000000.log").write_bytes(legacy_message_set.encode_set(records, SNAPPY, magic))
    assert rows(tmp_path) == [(0, i, None, b"%d" % i) for i in range(2500)]
    bounds = {"startingOffsets": '{"t": {"0": 1700}}', "endingOffsets": '{"t": {"0": 2300}}'}
    assert [row[1] for row in rows(tmp_path, **bounds)] == list(range(1700, 2300))


def test_corrupt_batch_is_reported_with_its_partition_and_offset(broker: Broker, tmp_path: Path) -> None:
    send(broker.bootstrap_servers, 100)
    broker.stop()
    segment = next(path for path in sorted(tmp_path.glob("t-*/*.log")) if path.stat().st_size)
    content = bytearray(segment.read_bytes())
    content[100] ^= 1
    segment.write_bytes(content)
    with pytest.raises(CorruptMessageError, match=r"t-\d, offset 0"):
        rows(tmp_path)


def test_undecodable_batch_raises_an_error_with_its_offsets(broker: Broker, tmp_path: Path) -> None:
    send(broker.bootstrap_servers, 100)
    broker.stop()
    segment = max(tmp_path.glob("t-*/*.log"))
    content = bytearray(segment.read_bytes())
    size = 12 + int.from_bytes(content[8:12], "big")
    content[57:61] = (1 << 20).to_bytes(4, "big")  # a wrong record count with a valid CRC
    reseal(content, 0, size)
    segment.write_bytes(content)
    with pytest.raises(CorruptBatchError, match=r"t-\d, offset 0: the batch of offsets 0 to") as raised:
        rows(tmp_path)
    assert raised.value.offset == 0
    assert raised.value.next_offset > 0


def test_zeroed_part_of_a_closed_segment_is_reported(broker: Broker, tmp_path: Path) -> None:
    for _ in range(8):
        send(broker.bootstrap_servers, 200)
    broker.stop()
    segments = next(logs for logs in (sorted(d.glob("*.log")) for d in tmp_path.glob("t-*")) if len(logs) > 1)
    content = bytearray(segments[0].read_bytes())
    first = 12 + int.from_bytes(content[8:12], "big")
    assert first < len(content)
    content[first:] = bytes(len(content) - first)
    segments[0].write_bytes(content)
    with pytest.raises(CorruptMessageError, match="no valid batch at byte"):
        rows(tmp_path)


def test_bytes_above_the_high_watermark_are_ignored(broker: Broker, tmp_path: Path) -> None:
    """A crash or a broker that is writing leaves such bytes."""
    send(broker.bootstrap_servers, 100)
    expected = consumed(broker.bootstrap_servers)
    broker.stop()
    for directory in tmp_path.glob("t-*"):
        with max(directory.glob("*.log")).open("ab") as segment:
            segment.write(b"\xff" * 200)
    assert rows(tmp_path) == expected
    assert rows(tmp_path, kafka_isolation_level="read_committed") == expected


def test_truncated_tail_is_reported(broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    send(broker.bootstrap_servers, 100)
    send(broker.bootstrap_servers, 100)
    expected = [row for row in consumed(broker.bootstrap_servers) if row[0] == 0]
    broker.stop()
    segment = max((tmp_path / "t-0").glob("*.log"))
    with segment.open("r+b") as file:
        file.truncate(segment.stat().st_size - 1)
    actual = [row for row in rows(tmp_path) if row[0] == 0]
    assert 0 < len(actual) < len(expected)
    assert actual == expected[: len(actual)]
    assert f"t-0 ends at offset {len(actual)}, before its checkpointed high watermark {len(expected)}" in caplog.text
    bounds = {"assign": '{"t": [0]}', "endingOffsets": f'{{"t": {{"0": {len(expected)}}}}}'}
    reading = {"ottla.log.dirs": str(tmp_path), **bounds}
    with pytest.raises(DataLossError, match=f"t-0: it ends at {len(actual)}"):
        LogDirReader(read_options(reading, streaming=False)).partitions()


def test_replica_with_the_highest_end_offset_is_read(broker: Broker, tmp_path: Path) -> None:
    send(broker.bootstrap_servers, 100)
    expected = consumed(broker.bootstrap_servers)
    broker.stop()
    behind = tmp_path / "other-broker"
    for partition in range(PARTITIONS):
        shutil.copytree(tmp_path / f"t-{partition}", behind / f"t-{partition}")
    (behind / "replication-offset-checkpoint").write_text("0\n2\nt 0 3\nt 1 2\n")
    for log_dirs in (f"{tmp_path},{behind}", f"{behind},{tmp_path}"):
        assert rows(Path(log_dirs)) == expected


def test_missing_topic_or_directory_is_named(broker: Broker, tmp_path: Path) -> None:
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", 1, 1)])
    with pytest.raises(UnknownTopicOrPartitionError, match=r"no such topic: other \(ottla\.log\.dirs"):
        rows(tmp_path, "other")
    with pytest.raises(KafkaStorageError, match="is not a directory"):
        rows(tmp_path / "absent")
    with pytest.raises(ConfigurationError, match=r"isolation.level: 'read_comitted'.*read_committed"):
        rows(tmp_path, kafka_isolation_level="read_comitted")
    with pytest.raises(ConfigurationError, match="a stream needs brokers"):
        read_options(
            {"ottla.log.dirs": str(tmp_path), "subscribe": "t", "kafka.bootstrap.servers": "h:1"}, streaming=True
        )


def test_segment_removed_by_compaction_is_looked_up_again(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(broker.bootstrap_servers, 1000)
    expected = consumed(broker.bootstrap_servers)
    broker.stop()
    listed = ReadOnlyLog._bases
    first_call = [True]

    def with_deleted_segment(self: ReadOnlyLog) -> list[int]:
        return sorted({*listed(self), 7}) if first_call and not first_call.clear() else listed(self)  # type: ignore[func-returns-value]

    log = ReadOnlyLog(tmp_path / "t-0", 0, None)
    monkeypatch.setattr(ReadOnlyLog, "_bases", with_deleted_segment)
    assert sum(b.header.count for b in log.batches(0, log.end)) == sum(1 for row in expected if row[0] == 0)


def test_segments_deleted_after_planning_are_reported_as_data_loss(broker: Broker, tmp_path: Path) -> None:
    send(broker.bootstrap_servers, 2000)
    expected = consumed(broker.bootstrap_servers)
    broker.stop()
    strict, lenient = reader(tmp_path), reader(tmp_path, failOnDataLoss="false")
    tasks: Any = strict.partitions()
    planned = [p for p in tasks if p.range.topic_partition.partition == 0]
    first, second, *_ = sorted((tmp_path / "t-0").glob("*.log"))
    first.unlink()
    with pytest.raises(DataLossError, match=r"t-0: .*offset 0 was deleted"):
        [list(strict.read(p)) for p in planned]
    actual = [n for p in planned for batch in lenient.read(p) for n in batch["offset"].to_pylist()]
    assert actual == [row[1] for row in expected if row[0] == 0 and row[1] >= int(second.stem)]
    shutil.rmtree(tmp_path / "t-0")
    with pytest.raises(DataLossError, match=r"t-0: .*offset 0 was deleted"):
        [list(strict.read(p)) for p in planned]


def test_index_of_replaced_segment_files_is_not_used(broker: Broker, tmp_path: Path) -> None:
    """Compaction may replace the files after the log is opened and before the index is."""
    send(broker.bootstrap_servers, 2000)
    expected = consumed(broker.bootstrap_servers)
    broker.stop()
    index = next(path for path in sorted((tmp_path / "t-0").glob("*.index")) if path.stat().st_size)
    index.write_bytes(b"".join(struct.pack(">ii", n, 61 * n + 1) for n in range(1, 50)))
    bounds = {"startingOffsets": '{"t": {"0": 60, "1": -2}}'}
    assert rows(tmp_path, **bounds) == [row for row in expected if row[0] == 1 or row[1] >= 60]


def test_arrow_batches_of_large_values_are_bounded(tmp_path: Path) -> None:
    with (
        Broker({"log.dirs": str(tmp_path)}) as broker,
        KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        for _ in range(30):
            producer.send("t", bytes(500_000), partition=0)
    reading = reader(tmp_path)
    sizes = [batch.nbytes for partition in reading.partitions() for batch in reading.read(partition)]
    assert sum(sizes) > 15_000_000
    assert max(sizes) < 6_000_000
