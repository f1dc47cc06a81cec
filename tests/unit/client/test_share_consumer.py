"""The share consumer (KIP-932) with an Ottla broker: acquisition, acknowledgements, sessions and closing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from scripts.tables import DOCS
from tests.unit.client.marked_options import marked, missing_mark
from tests.unit.client.scripted import ScriptedBroker

from ottla import (
    AcknowledgeType,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    KafkaProducer,
    KafkaShareConsumer,
    NewTopic,
    ShareConsumerRecord,
    TopicPartition,
    aio,
)
from ottla.broker.embedded import Broker
from ottla.client.consumer.share.acknowledgements import Acknowledgements, Source, acknowledgement_batches
from ottla.client.consumer.share.acquired_records import AcquiredRecords
from ottla.client.consumer.share.share_session import ShareFetchLimits, ShareSessionHandler
from ottla.config.consumer import ConsumerConfig
from ottla.config.share_consumer import UNSUPPORTED, ShareConsumerConfig
from ottla.errors import (
    ConfigurationError,
    CorruptBatchError,
    IllegalStateError,
    InvalidGroupIdError,
    KafkaError,
    RecordDeserializationError,
    UnsupportedVersionError,
    WakeupError,
)
from ottla.model import TopicIdPartition
from ottla.protocol.fields import ZERO_UUID
from ottla.protocol.messages.share_fetch import AcquiredRecords as AcquiredRange
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ottla.records.builder import BatchBuilder

QUICK = {"group.share.heartbeat.interval.ms": 100, "group.share.min.heartbeat.interval.ms": 50}
TESTED = marked("test_share_consumer.py")
VALID_VALUES: dict[str, Any] = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "interceptor.classes": "builtins.object",
    "partition.assignment.strategy": "range",
    "group.protocol": "consumer",
}
"""Valid values of consumer options that a share consumer rejects; 1 for the others."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with Broker(QUICK) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def topic(cluster: str, request: pytest.FixtureRequest) -> str:
    """A topic with one partition and ten records, and a share group of the same name that starts at the first one."""
    name = f"t{abs(hash(request.node.name)) % 10**9}"
    with KafkaAdminClient(bootstrap_servers=cluster) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
        group = ConfigResource(ConfigResourceType.GROUP, name)
        admin.alter_configs({group: {"share.auto.offset.reset": "earliest"}})
    send(cluster, name, range(10))
    return name


def send(cluster: str, topic: str, values: range) -> None:
    with KafkaProducer(bootstrap_servers=cluster) as producer:
        for value in values:
            producer.send(topic, b"%d" % value)


def member(cluster: str, topic: str, **options: Any) -> KafkaShareConsumer:
    options = {"fetch_max_wait_ms": 50, "retry_backoff_ms": 10, **options}
    return KafkaShareConsumer(topic, bootstrap_servers=cluster, group_id=topic, **options)


def explicit(cluster: str, topic: str, **options: Any) -> KafkaShareConsumer:
    return member(cluster, topic, share_acknowledgement_mode="explicit", **options)


def poll_records(consumer: KafkaShareConsumer, seconds: float = 10) -> list[ShareConsumerRecord]:
    """Poll until there are records, and return them."""
    end = time.monotonic() + seconds
    while not (records := [r for rows in consumer.poll(timeout_ms=500).values() for r in rows]):
        assert time.monotonic() < end, "no records arrived"
    return records


def values(records: list[ShareConsumerRecord]) -> list[int]:
    return [int(record.value) for record in records]


def test_poll_of_another_task_does_not_join_the_group_again_while_the_consumer_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run(broker: ScriptedBroker) -> None:
        consumer = aio.KafkaShareConsumer("t", bootstrap_servers=broker.address, group_id="g")
        await consumer.start()
        core = consumer._core
        end_metadata = core.metadata.close

        async def close_metadata() -> None:  # called after the consumer has left the group
            core.poll_trigger.set()
            await asyncio.sleep(0.1)
            await end_metadata()

        monkeypatch.setattr(core.metadata, "close", close_metadata)
        polling = asyncio.create_task(consumer.poll(timeout_ms=60_000))
        while not core.membership.is_settled:
            await asyncio.sleep(0.01)
        await consumer.close()
        with pytest.raises(IllegalStateError, match="the share consumer is closed"):
            await asyncio.wait_for(polling, 5)

    with ScriptedBroker() as broker:
        broker.add_topic("t", 1)
        broker.on(
            ShareGroupHeartbeatRequest,
            lambda request: ShareGroupHeartbeatResponse(
                member_id=request.member_id,
                member_epoch=max(request.member_epoch, 1) if request.member_epoch >= 0 else request.member_epoch,
                heartbeat_interval_ms=20,
            ),
            times=1000,
        )
        asyncio.run(run(broker))
        assert [r.member_epoch for r in broker.requests_of(ShareGroupHeartbeatRequest)].count(0) == 1


# Acknowledgement modes


@pytest.mark.option("share.acknowledgement.mode")
def test_implicit_mode_accepts_the_last_records_with_the_next_poll(cluster: str, topic: str) -> None:
    results: list[tuple[dict[TopicPartition, set[int]], KafkaError | None]] = []
    with member(cluster, topic) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: results.append((offsets, error)))
        records = poll_records(consumer)
        assert values(records) == list(range(10))
        assert {record.delivery_count for record in records} == {1}
        assert consumer.acquisition_lock_timeout_ms() == 30_000
        assert not consumer.poll(timeout_ms=100)
        consumer.poll(timeout_ms=0)
    assert results == [({TopicPartition(topic, 0): set(range(10))}, None)]


def test_records_without_an_acknowledgement_are_delivered_again_after_close(cluster: str, topic: str) -> None:
    with member(cluster, topic) as consumer:
        assert len(poll_records(consumer)) == 10
    with member(cluster, topic) as consumer:
        records = poll_records(consumer)
        assert {record.delivery_count for record in records} == {2}
        assert consumer.commit() == {TopicPartition(topic, 0): None}
        assert consumer.commit() == {}
    with member(cluster, topic) as consumer:
        assert not consumer.poll(timeout_ms=300)


def test_explicit_mode_acknowledges_each_record_by_type(cluster: str, topic: str) -> None:
    with explicit(cluster, topic) as consumer:
        for record in poll_records(consumer):
            kind = {3: AcknowledgeType.RELEASE, 4: AcknowledgeType.REJECT}.get(record.offset, AcknowledgeType.ACCEPT)
            consumer.acknowledge(record, kind)
        again = poll_records(consumer)
        assert [(record.offset, record.delivery_count) for record in again] == [(3, 2)]
        consumer.acknowledge(again[0])
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
        with pytest.raises(IllegalStateError, match="not in flight"):
            consumer.acknowledge(again[0])


def test_poll_with_unacknowledged_records_is_rejected_in_explicit_mode(cluster: str, topic: str) -> None:
    with explicit(cluster, topic) as consumer:
        records = poll_records(consumer)
        consumer.acknowledge(records[0])
        with pytest.raises(IllegalStateError, match="must be acknowledged"):
            consumer.poll()
        for record in records[1:]:
            consumer.acknowledge_offset(record.topic_partition, record.offset)
        assert not consumer.poll(timeout_ms=100)


def test_acknowledge_is_rejected_in_implicit_mode(cluster: str, topic: str) -> None:
    with member(cluster, topic) as consumer, pytest.raises(IllegalStateError, match="explicit"):
        consumer.acknowledge(poll_records(consumer)[0])


def test_renewed_records_are_returned_before_new_ones(cluster: str, topic: str) -> None:
    with explicit(cluster, topic) as consumer:
        for record in poll_records(consumer):
            consumer.acknowledge(record, AcknowledgeType.RENEW if record.offset == 5 else AcknowledgeType.ACCEPT)
        send(cluster, topic, range(10, 12))
        renewed = poll_records(consumer)
        assert [(record.offset, record.delivery_count) for record in renewed] == [(5, 1)]
        consumer.acknowledge(renewed[0])
        assert values(poll_records(consumer)) == [10, 11]


def test_commit_async_reports_the_result_to_the_callback(cluster: str, topic: str) -> None:
    results: list[KafkaError | None] = []
    with explicit(cluster, topic) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda _, error: results.append(error))
        for record in poll_records(consumer):
            consumer.acknowledge(record)
        consumer.commit_async()
        end = time.monotonic() + 5
        while not results:
            assert time.monotonic() < end
            consumer.poll(timeout_ms=20)
    assert results == [None]


# Acquisition


@pytest.mark.option("share.acquire.mode")
def test_record_limit_never_exceeds_max_poll_records(cluster: str, topic: str) -> None:
    with member(cluster, topic, share_acquire_mode="record_limit", max_poll_records=3) as consumer:
        assert [len(poll_records(consumer)) for _ in range(4)] == [3, 3, 3, 1]


def test_members_share_the_records_of_one_partition(cluster: str, topic: str) -> None:
    with explicit(cluster, topic, max_poll_records=4, share_acquire_mode="record_limit") as one:
        with explicit(cluster, topic) as two:
            first = poll_records(one)
            second = poll_records(two)
            assert values(first) == [0, 1, 2, 3]
            assert values(second) == [4, 5, 6, 7, 8, 9]


def test_unsubscribe_releases_records_and_a_new_subscription_gets_them(cluster: str, topic: str) -> None:
    with explicit(cluster, topic) as consumer:
        assert len(poll_records(consumer)) == 10
        consumer.unsubscribe()
        assert consumer.subscription() == set()
        with pytest.raises(IllegalStateError, match="not subscribed"):
            consumer.poll()
        consumer.subscribe([topic])
        assert {record.delivery_count for record in poll_records(consumer)} == {2}


# Records that cannot be read


def test_record_that_cannot_be_deserialized_is_released_unless_it_is_rejected(cluster: str, topic: str) -> None:
    def number(data: bytes) -> int:
        if data == b"6":
            raise ValueError("six")
        return int(data)

    with explicit(cluster, topic, value_deserializer=number) as consumer:
        records = poll_records(consumer)
        assert [record.value for record in records] == [0, 1, 2, 3, 4, 5, 7, 8, 9]
        for record in records:
            consumer.acknowledge(record)
        with pytest.raises(RecordDeserializationError) as failure:
            consumer.poll(timeout_ms=1000)
        assert failure.value.offset == 6
        with pytest.raises(RecordDeserializationError):
            consumer.poll(timeout_ms=1000)
        consumer.acknowledge_offset(TopicPartition(topic, 0), 6, AcknowledgeType.REJECT)
        assert not consumer.poll(timeout_ms=200)


def acquired(data: bytes, *ranges: tuple[int, int]) -> AcquiredRecords:
    source = Source(TopicPartition("t", 0), ZERO_UUID, 1)
    runs = [AcquiredRange(first_offset=a, last_offset=b, delivery_count=1) for a, b in ranges]
    return AcquiredRecords(source, memoryview(data), runs)


def batch(count: int, base_offset: int) -> bytes:
    builder = BatchBuilder(bytearray(10_000))
    for n in range(count):
        assert builder.append(1000, None, b"%d" % (base_offset + n), [])
    data = bytearray(builder.close())
    data[:8] = base_offset.to_bytes(8, "big")
    return bytes(data)


def test_acquired_offsets_without_a_record_are_gaps() -> None:
    records = acquired(batch(3, 0) + batch(3, 8), (1, 9))
    decoded = records.decode(None, None, check_crc=True, max_decompressed_bytes=10_000)
    assert [record.offset for record in decoded.records] == [1, 2, 8, 9]
    assert decoded.acknowledged == dict.fromkeys(range(3, 8), 0)
    assert decoded.error is None


def test_records_of_a_damaged_batch_are_rejected_and_the_others_returned() -> None:
    data = bytearray(batch(3, 0) + batch(3, 3))
    data[70] ^= 0xFF
    decoded = acquired(bytes(data), (0, 5)).decode(None, None, check_crc=True, max_decompressed_bytes=10_000)
    assert [record.offset for record in decoded.records] == [3, 4, 5]
    assert decoded.acknowledged == dict.fromkeys(range(3), AcknowledgeType.REJECT)
    assert isinstance(decoded.error, CorruptBatchError)


def test_errors_after_the_first_of_a_response_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    data = bytearray(b"".join(batch(2, first) for first in range(0, 12, 2)))
    size = len(data) // 6
    for number in range(5):
        data[number * size + 70] ^= 0xFF
    decoded = acquired(bytes(data), (0, 11)).decode(None, None, check_crc=True, max_decompressed_bytes=10_000)
    assert [record.offset for record in decoded.records] == [10, 11]
    assert "offset 0:" in str(decoded.error)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "ottla.client"]
    assert line.startswith(
        "t-0: besides the error that poll() raises, batches or records of one response cannot be decoded (4);"
    )
    assert "offsets 2 to 3" in line
    assert line.endswith("and 1 more")


# Requests


def test_acknowledgement_batches_have_one_type_for_a_run_or_one_for_each_record() -> None:
    batches = acknowledgement_batches({1: 1, 2: 1, 3: 1, 7: 2, 8: 3})
    assert [(b.first_offset, b.last_offset, b.acknowledge_types) for b in batches] == [(1, 3, [1]), (7, 8, [2, 3])]


def test_session_sends_only_changes_and_acknowledgements() -> None:
    async def test() -> None:
        session = ShareSessionHandler("g", ShareFetchLimits(500, 1, 1000, 10, 0))
        one, two = TopicIdPartition(ZERO_UUID, 0), TopicIdPartition(ZERO_UUID, 1)
        request = session.fetch_request("m", [one, two], [])
        assert request.share_session_epoch == 0
        assert [p.partition_index for p in request.topics[0].partitions] == [0, 1]
        session.succeeded()
        source = Source(TopicPartition("t", 1), ZERO_UUID, 1)
        sent = [Acknowledgements(source, {4: 1}), Acknowledgements(source, {5: 2})]
        request = session.fetch_request("m", [one], sent)
        assert request.share_session_epoch == 1
        assert [p.partition_index for p in request.topics[0].partitions] == [1]
        assert request.topics[0].partitions[0].acknowledgement_batches[0].acknowledge_types == [1, 2]
        assert request.forgotten_topics_data[0].partitions == [1]
        session.restart()
        assert not session.is_open

    asyncio.run(test())


# Configs, errors, asyncio


@pytest.mark.parametrize("option", sorted({*ShareConsumerConfig.options} - {*ConsumerConfig.options}))
def test_every_option_is_documented_and_has_a_test(option: str) -> None:
    assert option in TESTED, missing_mark(option)
    assert f"| `{option}` |" in (DOCS / "options.md").read_text(), "run make docs"


@pytest.mark.parametrize("key", UNSUPPORTED)
def test_options_that_the_group_decides_are_rejected(key: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{key} cannot be set when using a share group"):
        ShareConsumerConfig({"bootstrap.servers": "localhost:9092", key: VALID_VALUES.get(key, "1")})


def test_share_consumer_without_a_group_is_rejected() -> None:
    with pytest.raises(InvalidGroupIdError, match="group_id"):
        KafkaShareConsumer("t")


def test_cluster_without_share_groups_is_named_in_the_error() -> None:
    with ScriptedBroker({"ShareGroupHeartbeat": 0}) as broker:
        broker.add_topic("t")
        with member(broker.address, "t") as consumer, pytest.raises(UnsupportedVersionError, match="share groups"):
            poll_records(consumer)


def test_wakeup_interrupts_a_poll(cluster: str, topic: str) -> None:
    with member(cluster, topic) as consumer:
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.poll(timeout_ms=5000)
        assert len(poll_records(consumer)) == 10


def test_closed_share_consumer_rejects_calls(cluster: str, topic: str) -> None:
    consumer = member(cluster, topic)
    consumer.close()
    consumer.close()
    with pytest.raises(IllegalStateError, match="closed"):
        consumer.poll()


def test_share_consumer_rejects_calls_of_a_second_thread(broker: ScriptedBroker) -> None:
    with member(broker.address, "t") as consumer, ThreadPoolExecutor(1) as others, consumer._use:
        for call in (consumer.poll, consumer.commit, consumer.unsubscribe, consumer.close):
            with pytest.raises(IllegalStateError, match="another thread"):
                others.submit(call).result()
        with pytest.raises(IllegalStateError, match="another thread"):
            others.submit(consumer.acknowledge_offset, TopicPartition("t", 0), 0).result()
        consumer.unsubscribe()  # allowed in the thread that uses the consumer, such as in a callback


@pytest.mark.usefixtures("no_leaks")
def test_share_consumer_leaves_no_thread_and_no_descriptor(broker: ScriptedBroker) -> None:
    member(broker.address, "t").close(timeout_ms=100)


def test_asyncio_share_consumer_acknowledges(cluster: str, topic: str) -> None:
    async def test() -> None:
        results = []

        async def report(offsets: dict[TopicPartition, set[int]], error: KafkaError | None) -> None:
            await asyncio.sleep(0)
            results.append((offsets, error))

        async with aio.KafkaShareConsumer(
            topic, bootstrap_servers=cluster, group_id=topic, share_acknowledgement_mode="explicit"
        ) as consumer:
            consumer.set_acknowledgement_commit_callback(report)
            records = await consumer.poll(timeout_ms=5000)
            for record in records[TopicPartition(topic, 0)]:
                consumer.acknowledge(record)
            assert await consumer.commit_sync() == {TopicPartition(topic, 0): None}
        assert results == [({TopicPartition(topic, 0): set(range(10))}, None)]

    asyncio.run(test())
