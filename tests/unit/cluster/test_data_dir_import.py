"""Import of log directories of Apache Kafka: topics, configs, ACLs and producer ids."""

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, with_broker

from ottla.cli.main import main
from ottla.cluster.image.cluster_image import TopicImage
from ottla.cluster.migration import kraft
from ottla.cluster.migration.data_dir_import import import_log_dirs
from ottla.cluster.store import znodes
from ottla.cluster.store.sqlite_store import SqliteMetadataStore
from ottla.errors import StartupError
from ottla.model import TopicPartition
from ottla.protocol.message import Data, encode
from ottla.protocol.messages import metadata_records as m
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.wire import write_uvarint
from ottla.records.builder import BatchBuilder
from ottla.storage.log_dir import META_PROPERTIES, LogDir

A, B = uuid.UUID(int=1 << 100), uuid.UUID(int=2 << 100)
NUMBERS = {cls: number for number, cls in m.RECORDS.items()}


def frame(record: Data, version: int = 0) -> bytes:
    out = bytearray()
    for number in (1, NUMBERS[type(record)], version):
        write_uvarint(out, number)
    return bytes(encode(record, version, out))


def batches(first: int, *records: Data) -> bytes:
    builder = BatchBuilder(bytearray(20_000), 0)
    for record in records:
        builder.append(1, None, frame(record))
    data = bytearray(builder.close())
    data[:8] = first.to_bytes(8, "big")
    return bytes(data)


def partition(topic: uuid.UUID, index: int, **more: Any) -> m.PartitionRecord:
    fields = {"replicas": [0], "isr": [0], "leader": 0, "leader_epoch": 4, **more}
    return m.PartitionRecord(partition_id=index, topic_id=topic, **fields)


RECORDS: list[Data] = [
    m.TopicRecord(name="a", topic_id=A),
    partition(A, 0),
    partition(A, 1),
    m.ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="7000"),
    m.ConfigRecord(resource_type=2, resource_name="a", name="segment.ms", value="1"),
    m.ConfigRecord(resource_type=2, resource_name="a", name="segment.ms", value=None),
    m.TopicRecord(name="b", topic_id=B),
    partition(B, 0),
    m.RemoveTopicRecord(topic_id=B),
    m.PartitionChangeRecord(partition_id=1, topic_id=A, leader=-1, isr=[]),
    m.PartitionChangeRecord(partition_id=1, topic_id=A, leader=0, isr=[0]),
    m.ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="5"),
    m.ClientQuotaRecord(
        entity=[
            m.QuotaEntity(entity_type="user", entity_name="u"),
            m.QuotaEntity(entity_type="client-id", entity_name=None),
        ],
        key="producer_byte_rate",
        value=1024.0,
    ),
    m.ProducerIdsRecord(broker_id=0, next_producer_id=5000),
]


def metadata(directory: Path, *records: Data) -> Path:
    home = directory / kraft.DIRECTORY
    home.mkdir(parents=True)
    (home / "00000000000000000000.log").write_bytes(batches(0, *records))
    return home


def test_metadata_log_is_read_to_its_end(tmp_path: Path) -> None:
    result = kraft.read(metadata(tmp_path, *RECORDS))
    assert {topic.name for topic in result.topics.values()} == {"a"}
    partitions = result.topics[A].partitions
    assert (partitions[0].leader_epoch, partitions[1].leader_epoch, partitions[1].isr) == (4, 6, [0])
    assert result.topic_configs["a"] == {"retention.ms": "7000"}
    assert result.configs == {
        "brokers/<default>": {"log.retention.ms": "5"},
        "users/u/clients/<default>": {"producer_byte_rate": "1024"},
    }
    assert result.next_producer_id == 5000


def test_only_completed_transactions_of_the_controller_are_imported(tmp_path: Path) -> None:
    committed, dropped = uuid.UUID(int=3 << 100), uuid.UUID(int=4 << 100)
    home = metadata(
        tmp_path,
        m.BeginTransactionRecord(),
        m.TopicRecord(name="dropped", topic_id=dropped),
        m.AbortTransactionRecord(),
        m.BeginTransactionRecord(),
        m.TopicRecord(name="kept", topic_id=committed),
        m.EndTransactionRecord(),
        m.BeginTransactionRecord(),
        m.TopicRecord(name="open", topic_id=A),
    )
    assert [topic.name for topic in kraft.read(home).topics.values()] == ["kept"]


def test_snapshot_replaces_earlier_updates(tmp_path: Path) -> None:
    home = metadata(tmp_path, m.TopicRecord(name="old", topic_id=B), m.TopicRecord(name="late", topic_id=A))
    (home / f"{1:020d}-{3:010d}.checkpoint").write_bytes(batches(0, m.TopicRecord(name="renewed", topic_id=B)))
    assert [topic.name for topic in kraft.read(home).topics.values()] == ["renewed", "late"]


def test_damaged_metadata_is_a_startup_error(tmp_path: Path) -> None:
    home = metadata(tmp_path, *RECORDS)
    log = home / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[200] ^= 0xFF
    log.write_bytes(data)
    with pytest.raises(StartupError, match="cannot read Apache Kafka.s metadata"):
        kraft.read(home)


def log_directories(data: Path, *names: str, topic_id: uuid.UUID | None = A) -> None:
    for name in names:
        (data / name).mkdir(parents=True)
        (data / name / "leader-epoch-checkpoint").write_text("0\n1\n7 0\n")
        if topic_id is not None:
            (data / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {znodes.uuid_text(topic_id)}\n")


def topic(client: BrokerClient, name: str) -> TopicImage:
    return client.context.image.topics[name]


def of_broker_3(record: Data) -> Data:
    if isinstance(record, m.PartitionRecord):
        return partition(record.topic_id, record.partition_id, replicas=[3], isr=[3])
    if isinstance(record, m.PartitionChangeRecord):
        return m.PartitionChangeRecord(partition_id=1, topic_id=A, leader=3)
    return record


def test_import_of_a_node_with_metadata_keeps_its_id(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        assert client.node.broker_id == 3
        result = topic(client, "a")
        assert (result.id, result.configs, len(result.partitions)) == (A, {"retention.ms": "7000"}, 2)
        assert [p.leader_epoch for p in result.partitions] == [5, 7]
        assert client.context.config.log_retention_ms == 5
        assert await client.context.producer_ids.next_id() == 5000
        assert len(client.context.partitions) == 2

    metadata(tmp_path, *[of_broker_3(record) for record in RECORDS])
    log_directories(tmp_path, "a-0", "a-1")
    (tmp_path / META_PROPERTIES).write_text("version=1\nnode.id=3\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n")
    with_broker(test, tmp_path)


def acl_record(number: int, name: str, *, pattern_type: int = 3, permission: int = 3) -> m.AccessControlEntryRecord:
    principal: dict[str, Any] = {"principal": "User:alice", "host": "*"}
    response: dict[str, Any] = {
        "resource_type": 5,
        "resource_name": name,
        "pattern_type": pattern_type,
        "operation": 4,
        "permission_type": permission,
    }
    return m.AccessControlEntryRecord(id=uuid.UUID(int=number), **principal, **response)


def test_import_of_acls_stores_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(client: BrokerClient) -> None:
        response = await client.request(DescribeAclsRequest(**match_all), 3)
        result = [(r.resource_type, r.resource_name, r.pattern_type, len(r.acls)) for r in response.resources]
        assert result == [(5, "app-", 4, 1), (5, "t", 3, 1)]
        assert response.resources[1].acls[0].principal == "User:alice"
        assert "a/b" in caplog.text

    match_all: dict[str, Any] = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
    match_all |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    acl_records = [
        acl_record(1, "t"),
        acl_record(2, "app-", pattern_type=4),
        acl_record(3, "gone"),
        acl_record(4, "a/b"),
    ]
    metadata(tmp_path, *RECORDS, *acl_records, m.RemoveAccessControlEntryRecord(id=uuid.UUID(int=3)))
    log_directories(tmp_path, "a-0")
    with_broker(test, tmp_path, authorizer_class_name="AclAuthorizer", super_users="User:ANONYMOUS")


def test_deny_acl_that_cannot_be_stored_fails_the_import(tmp_path: Path) -> None:
    async def test(_: BrokerClient) -> None:
        raise AssertionError("it starts")

    metadata(tmp_path, *RECORDS, acl_record(1, "a/b", permission=2))
    log_directories(tmp_path, "a-0")
    with pytest.raises(StartupError, match="a/b"):
        with_broker(test, tmp_path)


def test_import_of_logs_without_metadata_creates_their_topics(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        result = topic(client, "a")
        assert (result.id, len(result.partitions), result.configs) == (A, 3, {})
        assert result.partitions[0].leader_epoch == 8
        assert topic(client, "__consumer_offsets").configs["cleanup.policy"] == "compact"
        assert client.context.partitions.get(TopicPartition("a", 2)) is not None

    log_directories(tmp_path, "a-0", "a-2")
    log_directories(tmp_path, "__consumer_offsets-0", topic_id=None)
    with_broker(test, tmp_path)


def test_producer_ids_in_logs_are_not_allocated_again(tmp_path: Path) -> None:
    async def first(client: BrokerClient) -> None:
        from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

        new_topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        await client.request(CreateTopicsRequest(topics=[new_topic]), 7)
        builder = BatchBuilder(bytearray(300))
        builder.append(1, b"k", b"v")
        data = memoryview(bytearray(builder.close(123_456, 0, 0)))
        client.context.partitions.get(TopicPartition("t", 0)).append(data)  # type: ignore[union-attr]

    async def second(client: BrokerClient) -> None:
        assert await client.context.producer_ids.next_id() == 123_457

    with_broker(first, tmp_path)
    for path in tmp_path.glob("registry.sqlite*"):
        path.unlink()
    with_broker(second, tmp_path)


def test_metadata_command_prints_an_unused_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def test(client: BrokerClient) -> None:
        assert main(["metadata", "dump", "--data", str(tmp_path)]) == 1
        assert "in use by another process" in capsys.readouterr().err

    with_broker(test, tmp_path)
    assert main(["metadata", "dump", "--data", str(tmp_path)]) == 0
    nodes = json.loads(capsys.readouterr().out)
    assert nodes["/controller_epoch"] == "1"
    assert "/controller" not in nodes


def test_metadata_with_wrong_options_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metadata", "export", "--data", str(tmp_path)]) == 1
    assert main(["metadata", "dump", "--data", str(tmp_path)]) == 1
    response = capsys.readouterr().err
    assert "needs --zookeeper" in response
    assert "has no registry.sqlite" in response


def test_import_after_a_failed_start_succeeds(tmp_path: Path) -> None:
    async def import_directory() -> int:
        store = SqliteMetadataStore(tmp_path)
        await store.open()
        try:
            return await import_log_dirs(store, [LogDir(tmp_path)], 0)
        finally:
            await store.close()

    (tmp_path / "t-0").mkdir()
    assert asyncio.run(import_directory()) == 1
    assert asyncio.run(import_directory()) == 0


def test_old_name_of_the_metadata_command_is_deprecated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["registry", "dump", "--data", str(tmp_path)]) == 1
    assert "registry is deprecated: use ottla metadata" in capsys.readouterr().err
