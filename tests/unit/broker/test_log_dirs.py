"""Several log directories: placement of logs, moves between directories (KIP-113), and the failure of one."""

import asyncio
import errno
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, batch, with_broker

from ottla.cluster.image.cluster_image import NO_LEADER
from ottla.errors import KafkaStorageError, StartupError
from ottla.model import TopicPartition
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.decoder import records
from ottla.storage import files
from ottla.storage import log as log_module
from ottla.storage.files import LogFile

STORAGE_ERROR, LOG_DIR_NOT_FOUND, REPLICA_NOT_AVAILABLE = 56, 57, 9
T0 = TopicPartition("t", 0)


def two_log_dirs(tmp_path: Path) -> dict[str, Any]:
    return {"log_dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}


async def create(client: BrokerClient, name: str, partitions: int, **options: str) -> None:
    from ottla.protocol.messages.create_topics import CreatableTopicConfig

    configs = [CreatableTopicConfig(name=n.replace("_", "."), value=v) for n, v in options.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs)
    assert (await client.request(CreateTopicsRequest(topics=[topic]), 7)).topics[0].error_code == 0


async def produce(client: BrokerClient, partition: int, *values: bytes) -> int:
    data = [PartitionProduceData(index=partition, records=batch(*values))]
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)])
    return (await client.request(request, 9)).responses[0].partition_responses[0].error_code


async def read(client: BrokerClient, partition: int) -> Any:
    requested = [FetchPartition(partition=partition, partition_max_bytes=10**7)]
    request = FetchRequest(max_bytes=10**7, topics=[FetchTopic(topic="t", partitions=requested)])
    actual = (await client.request(request, 4)).responses[0].partitions[0]
    return actual.error_code or [r.value for r in records(actual.records or b"")]


async def describe(client: BrokerClient, *partitions: int) -> dict[str, Any]:
    topics = [DescribableLogDirTopic(topic="t", partitions=list(partitions))] if partitions else None
    response = await client.request(DescribeLogDirsRequest(topics=topics), 4)
    return {
        Path(r.log_dir).name: r.error_code
        or {(t.name, p.partition_index, p.is_future_key): p.partition_size for t in r.topics for p in t.partitions}
        for r in response.results
    }


async def move(client: BrokerClient, path: Path, partition: int = 0) -> int:
    topics = [AlterReplicaLogDirTopic(name="t", partitions=[partition])]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(path), topics=topics)])
    return (await client.request(request, 2)).results[0].partitions[0].error_code


async def alter_broker(client: BrokerClient, key: str, value: str) -> None:
    config = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
    response = await client.request(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert response.responses[0].error_code == 0


async def wait_for_moves(client: BrokerClient) -> None:
    while client.context.partitions.log_dir_moves:
        await asyncio.sleep(0.001)


def test_logs_are_spread_over_directories_and_described_with_their_sizes(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t", 4)
        await produce(client, 0, b"x" * 1000)
        actual = await describe(client)
        assert [len(logs) for logs in actual.values()] == [2, 2]
        assert actual["a"]["t", 0, False] > 1000
        assert await describe(client, 1) == {"a": {}, "b": {("t", 1, False): 0}}
        response = await client.request(DescribeLogDirsRequest(topics=None), 4)
        assert all(0 < r.usable_bytes < r.total_bytes for r in response.results)

    with_broker(test, tmp_path, **two_log_dirs(tmp_path))


def test_replica_moves_to_another_directory_while_records_are_appended(tmp_path: Path) -> None:
    values = [b"%05d" % i * 200 for i in range(3000)]

    async def moving(client: BrokerClient) -> None:
        await create(client, "t", 1, segment_bytes="250000")
        for i in range(0, 2000, 100):
            await produce(client, 0, *values[i : i + 100])
        log = client.context.partitions.get(T0).log  # type: ignore[union-attr]
        log.delete_records_before(150)
        assert await move(client, tmp_path / "b") == 0
        assert ("t", 0, True) in (await describe(client))["b"]
        for i in range(2000, 3000, 100):
            assert await produce(client, 0, *values[i : i + 100]) == 0
            await asyncio.sleep(0)
        await wait_for_moves(client)
        actual = await describe(client)
        assert (list(actual["a"]), list(actual["b"])) == ([], [("t", 0, False)])
        partition = client.context.partitions.get(T0)
        assert partition is not None
        assert (partition.log.log_start_offset, partition.high_watermark) == (150, 3000)

    async def later(client: BrokerClient) -> None:
        partition = client.context.partitions.get(T0)
        assert partition is not None
        assert partition.log.dir.parent == tmp_path / "b"
        assert (partition.log.log_start_offset, partition.log.log_end_offset) == (150, 3000)
        actual = [r.value for _, data in partition.log.batches_from(150) for r in records(data) if r.offset >= 150]
        assert actual == values[150:]

    with_broker(moving, tmp_path, **two_log_dirs(tmp_path))
    with_broker(later, tmp_path, **two_log_dirs(tmp_path))


def test_move_whose_old_log_cannot_be_deleted_is_not_logged_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(tp: TopicPartition) -> None:
        raise KafkaStorageError("the disk has failed")

    async def test(client: BrokerClient) -> None:
        await create(client, "t", 1)
        assert await produce(client, 0, b"x") == 0
        partitions = client.context.partitions
        source = partitions.log_dirs[0]
        assert T0 in source.logs
        monkeypatch.setattr(source, "delete", broken)
        assert await move(client, tmp_path / "b") == 0
        await wait_for_moves(client)
        partition = partitions.get(T0)
        assert partition is not None
        assert partition.log.dir.parent == tmp_path / "b"
        del source.logs[T0]
        assert await read(client, 0) == [b"x"]

    with caplog.at_level("INFO", "ottla.replication"):
        with_broker(test, tmp_path, **two_log_dirs(tmp_path))
    moves = [line for line in caplog.messages if str(tmp_path / "a") in line and "t-0" in line]
    assert moves == [
        f"Cannot delete the old log of t-0 in log directory {tmp_path / 'a'} after the move to {tmp_path / 'b'}; its "
        "files stay: the disk has failed",
        f"Moved t-0 from log directory {tmp_path / 'a'} to {tmp_path / 'b'}",
    ]


def test_log_dir_move_is_throttled_until_the_limit_is_raised(tmp_path: Path) -> None:
    key = "replica.alter.log.dirs.io.max.bytes.per.second"

    async def test(client: BrokerClient) -> None:
        await create(client, "t", 1)
        for _ in range(20):
            await produce(client, 0, b"x" * 1000)
        assert await move(client, tmp_path / "b") == 0
        await asyncio.sleep(0.05)
        assert 0 < (await describe(client, 0))["b"]["t", 0, True] < 5000
        await alter_broker(client, key, "1000000000")
        await wait_for_moves(client)
        assert ("t", 0, False) in (await describe(client))["b"]

    with_broker(test, tmp_path, **two_log_dirs(tmp_path), **{key: 4000})


def test_impossible_log_dir_move_is_rejected(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t", 1)
        assert await move(client, tmp_path / "c") == LOG_DIR_NOT_FOUND
        assert await move(client, tmp_path / "b", partition=5) == REPLICA_NOT_AVAILABLE
        assert await move(client, tmp_path / "a") == 0
        assert not client.context.partitions.log_dir_moves

    with_broker(test, tmp_path, **two_log_dirs(tmp_path))


def test_future_replica_is_created_in_the_requested_directory(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        for partition in range(2):
            assert await move(client, tmp_path / "b", partition=partition) == REPLICA_NOT_AVAILABLE
        await create(client, "t", 3)
        actual = await describe(client)
        assert actual["b"].keys() == {("t", 0, False), ("t", 1, False)}
        assert actual["a"].keys() == {("t", 2, False)}

    with_broker(test, tmp_path, **two_log_dirs(tmp_path))


def test_leftovers_of_an_interrupted_move_are_deleted_or_marked_as_stray(tmp_path: Path) -> None:
    async def first(client: BrokerClient) -> None:
        await create(client, "t", 1)
        await produce(client, 0, b"1", b"2")

    async def second(client: BrokerClient) -> None:
        assert await read(client, 0) == [b"1", b"2"]

    with_broker(first, tmp_path, **two_log_dirs(tmp_path))
    (tmp_path / "b" / f"t-0.{'0' * 32}-future").mkdir()
    (tmp_path / "b" / "t-0").mkdir()
    with_broker(second, tmp_path, **two_log_dirs(tmp_path))
    remaining = sorted(p.name for p in (tmp_path / "b").iterdir() if p.name.startswith("t-0"))
    assert len(remaining) == 1
    assert remaining[0].endswith("-stray")


def fail_disk(monkeypatch: pytest.MonkeyPatch, directory: Path, code: int = errno.EIO) -> None:
    """Make writes in a directory fail."""
    write = LogFile.write

    def failing(self: LogFile, position: int, data: Any) -> None:
        if directory in self.path.parents:
            raise OSError(code, "the disk is broken")
        write(self, position, data)

    monkeypatch.setattr(LogFile, "write", failing)


def test_failed_directory_affects_its_partitions_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t", 4)
        for p in range(4):
            assert await produce(client, p, b"before") == 0
        fail_disk(monkeypatch, tmp_path / "b")
        assert [await produce(client, p, b"after") for p in range(4)] == [0, STORAGE_ERROR, 0, STORAGE_ERROR]
        assert [await read(client, p) for p in range(4)] == [
            [b"before", b"after"],
            STORAGE_ERROR,
            [b"before", b"after"],
            STORAGE_ERROR,
        ]
        assert (await describe(client))["b"] == STORAGE_ERROR
        assert await move(client, tmp_path / "b") == STORAGE_ERROR
        await create(client, "new", 2)
        assert {p.log.dir.parent for p in client.context.partitions if p.topic_partition.topic == "new"} == {
            tmp_path / "a"
        }
        assert not client.node.failed.is_set()

    async def later(client: BrokerClient) -> None:
        assert [await read(client, p) for p in range(4)] == [
            [b"before", b"after"],
            [b"before"],
            [b"before", b"after"],
            [b"before"],
        ]

    with_broker(test, tmp_path, **two_log_dirs(tmp_path))
    monkeypatch.undo()
    with_broker(later, tmp_path, **two_log_dirs(tmp_path))


def test_failure_of_the_directory_with_the_metadata_store_fails_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t", 1)
        fail_disk(monkeypatch, tmp_path / "a")
        assert await produce(client, 0, b"x") == STORAGE_ERROR
        assert client.node.failed.is_set()

    with_broker(test, tmp_path, **two_log_dirs(tmp_path))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_full_disk_fails_the_append_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t", 1)
        with monkeypatch.context() as context, caplog.at_level("WARNING"):
            fail_disk(context, tmp_path / "a", code)
            assert await produce(client, 0, b"x") == STORAGE_ERROR
        assert "Cannot append to t-0" in caplog.text
        assert await produce(client, 0, b"y") == 0
        assert await read(client, 0) == [b"y"]

    with_broker(test, tmp_path, **two_log_dirs(tmp_path))


async def leaders_and_offline_replicas(client: BrokerClient) -> list[tuple[int, list[int]]]:
    response = await client.request(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9)
    partitions = sorted(response.topics[0].partitions, key=lambda p: p.partition_index)
    return [(p.leader_id, p.offline_replicas) for p in partitions]


def test_start_without_a_directory_does_not_recreate_its_logs(tmp_path: Path) -> None:
    async def first(client: BrokerClient) -> None:
        await create(client, "t", 2)
        assert await produce(client, 1, b"kept") == 0

    async def without(client: BrokerClient) -> None:
        assert await read(client, 0) == []
        assert await read(client, 1) == STORAGE_ERROR
        while await leaders_and_offline_replicas(client) != [(0, []), (NO_LEADER, [0])]:
            await asyncio.sleep(0.01)
        await create(client, "new", 1)

    async def again(client: BrokerClient) -> None:
        assert await read(client, 1) == [b"kept"]

    with_broker(first, tmp_path, **two_log_dirs(tmp_path))
    (tmp_path / "b").rename(tmp_path / "aside")
    (tmp_path / "b").write_text("a file in the place of a mount")
    with_broker(without, tmp_path, **two_log_dirs(tmp_path))
    (tmp_path / "b").unlink()
    (tmp_path / "aside").rename(tmp_path / "b")
    with_broker(again, tmp_path, **two_log_dirs(tmp_path))
    (tmp_path / "a").rename(tmp_path / "aside")
    (tmp_path / "a").write_text("the store was in it")
    with pytest.raises(StartupError, match=r"log\.dirs.*is not a directory"):
        with_broker(again, tmp_path, **two_log_dirs(tmp_path))


def test_broker_of_a_cluster_starts_without_its_first_directory(tmp_path: Path) -> None:
    options = {**two_log_dirs(tmp_path), "ottla_metadata_dir": str(tmp_path / "store")}
    brokers: list[int] = []

    async def first(client: BrokerClient) -> None:
        await create(client, "t", 2)
        assert await produce(client, 1, b"kept") == 0
        brokers.append(client.context.broker_id)

    async def without(client: BrokerClient) -> None:
        codes = [await read(client, partition) for partition in (0, 1)]
        assert codes == [STORAGE_ERROR, [b"kept"]]
        brokers.append(client.context.broker_id)

    with_broker(first, tmp_path, **options)
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "a" / "meta.properties").mkdir(parents=True)  # cannot be read
    with_broker(without, tmp_path, **options)
    assert brokers[0] == brokers[1]
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "b").write_text("a file in the place of a mount")
    with pytest.raises(StartupError, match=r"cannot be read"):
        with_broker(without, tmp_path, **options)


def test_flush_overtaken_by_a_move_fails_neither_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began, moved = threading.Event(), threading.Event()
    real = files.sync_directory

    def slow(path: Path) -> None:
        if path == tmp_path / "a" / "t-0" and not began.is_set():
            began.set()
            moved.wait(5)
        real(path)

    async def test(client: BrokerClient) -> None:
        await create(client, "t", 1)
        await produce(client, 0, b"x")
        partition = client.context.partitions.get(T0)
        assert partition is not None
        partition.flush_in_background()
        await asyncio.to_thread(began.wait, 5)
        assert await move(client, tmp_path / "b") == 0
        await wait_for_moves(client)
        moved.set()
        await asyncio.to_thread(client.context.partitions.log_dirs[0].flusher.close)
        assert await produce(client, 0, b"y") == 0
        assert await read(client, 0) == [b"x", b"y"]

    monkeypatch.setattr(log_module, "sync_directory", slow)
    with_broker(test, tmp_path, **two_log_dirs(tmp_path))


def test_config_change_during_a_log_dir_move_applies_to_the_future_replica(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t", 1)
        for _ in range(3):
            await produce(client, 0, b"x" * 900_000)
        assert await move(client, tmp_path / "b") == 0
        await asyncio.sleep(0)
        config = AlterableConfig(name="retention.ms", value="4242")
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
        assert client.context.partitions.log_dir_moves
        await client.request(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        await wait_for_moves(client)
        partition = client.context.partitions.get(T0)
        assert partition is not None
        assert (partition.log.dir.parent, partition.log.config.retention_ms) == (tmp_path / "b", 4242)

    with_broker(test, tmp_path, **two_log_dirs(tmp_path))


def test_replica_with_segments_above_segment_bytes_moves(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t", 1)
        for _ in range(5):
            await produce(client, 0, b"x" * 90_000)
        config = AlterableConfig(name="segment.bytes", value="200000")
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
        await client.request(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert await move(client, tmp_path / "b") == 0
        await wait_for_moves(client)
        assert (await describe(client))["b"]["t", 0, False] > 450_000

    with_broker(test, tmp_path, **two_log_dirs(tmp_path))
