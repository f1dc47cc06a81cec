"""Roles of partitions: leaders, followers, waiters, and the calls of listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import batch
from tests.unit.replication.simulated_brokers import TP, Broker, Brokers, request_context
from tests.unit.replication.virtual_loop import run

from ottla.broker.handlers import delete_records, list_offsets
from ottla.errors import (
    KafkaStorageError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)
from ottla.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.replication.partition import Partition
from ottla.replication.partitions import Partitions
from ottla.storage.log import Log


class RecordingListener:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def on_leader(self, partition: Partition) -> None:
        self.calls.append(("led", partition.image.leader_epoch))

    def on_resigned(self, tp: TopicPartition) -> None:
        self.calls.append(("resigned", tp.partition))


def view(value: bytes = b"v") -> memoryview:
    return memoryview(batch(value, timestamp=1))


def with_brokers(test: Callable[[Brokers], Coroutine[Any, Any, None]], data: Path, **options: Any) -> None:
    async def main() -> None:
        brokers = Brokers(data, **options)
        await brokers.start()
        await test(brokers)
        brokers.close()

    run(main())


async def publish(brokers: Brokers, **changes: Any) -> None:
    """Change the state, and send it to all brokers at once."""
    state = brokers.state
    brokers.state = replace(state, state_version=state.state_version + 1, **changes)
    for broker in brokers.live.values():
        await broker.apply_image(brokers.image)


def test_listeners_are_called_in_new_epochs_and_on_resignation(tmp_path: Path) -> None:
    async def test(brokers: Brokers) -> None:
        listener = RecordingListener()
        brokers.live[1].partitions.add_listener(listener)
        await publish(brokers, leader=1, leader_epoch=1)
        await publish(brokers, isr=(1, 2))
        assert listener.calls == [("led", 1)], "the listener is not called for the same epoch"
        await publish(brokers, leader_epoch=2)
        await publish(brokers, leader=-1, leader_epoch=3)
        assert listener.calls[1:] == [("led", 2), ("resigned", 0)]

    with_brokers(test, tmp_path)


def test_partition_without_a_leader_rejects_reads_and_appends(tmp_path: Path) -> None:
    async def test(brokers: Brokers) -> None:
        await publish(brokers, leader=-1, leader_epoch=1)
        broker = brokers.live[0]
        for look in (broker.partitions.leader, broker.partitions.readable):
            with pytest.raises(NotLeaderOrFollowerError):
                look(broker.image, TP)
        with pytest.raises(NotLeaderOrFollowerError):
            broker.partition.append(view())  # type: ignore[union-attr]

    with_brokers(test, tmp_path)


def test_partition_without_a_leader_is_not_logged_as_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(brokers: Brokers) -> None:
        caplog.set_level("INFO", "ottla.replication")
        caplog.clear()  # the level may have been INFO before
        await publish(brokers, leader=1, leader_epoch=1)
        await publish(brokers, leader=-1, leader_epoch=2)

    with_brokers(test, tmp_path)
    assert [line for line in caplog.messages if line.startswith("Broker 0 now")] == [
        "Broker 0 now follows t-0 (epoch 1)",
        "Broker 0 now waits for a leader of t-0 (epoch 2)",
    ]


def test_outdated_image_changes_nothing(tmp_path: Path) -> None:
    async def test(brokers: Brokers) -> None:
        old = brokers.image
        await publish(brokers, leader=1, leader_epoch=1)
        await brokers.live[1].apply_image(old)
        assert brokers.live[1].partitions.get_leader(TP) is not None

    with_brokers(test, tmp_path)


def test_removed_partition_keeps_its_log_until_deletion(tmp_path: Path) -> None:
    async def test(brokers: Brokers) -> None:
        broker = brokers.live[0]
        partitions: Partitions = broker.partitions
        listener = RecordingListener()
        partitions.add_listener(listener)
        await publish(brokers, replicas=(1, 2), isr=(1, 2), leader=1, leader_epoch=1)
        assert partitions.get(TP) is None
        assert listener.calls == [("resigned", 0)]
        assert TP in broker.log_dir.logs
        partitions.delete(TP)
        assert TP not in broker.log_dir.logs
        await broker.apply_image(replace(broker.image, topics={}))
        with pytest.raises(UnknownTopicOrPartitionError):
            partitions.leader(broker.image, TP)

    with_brokers(test, tmp_path)


def test_broker_in_shutdown_does_not_follow_the_next_leader(tmp_path: Path) -> None:
    async def test(brokers: Brokers) -> None:
        leaving, leader = brokers.live[0].partition, brokers.live[1].partition
        assert leaving is not None
        assert leader is not None
        brokers.live[0].partitions.begin_shutdown()
        await publish(brokers, leader=1, leader_epoch=1, isr=(1, 2))
        wait = leader.when_committed(leader.append(view()).last_offset + 1)
        assert wait is not None
        await wait
        await asyncio.sleep(1)
        assert leaving.log.log_end_offset == 0
        assert leader.image.isr == (1, 2)

    with_brokers(test, tmp_path)


def test_acks_all_waits_for_the_isr_and_acks_1_for_none(tmp_path: Path) -> None:
    async def test(brokers: Brokers) -> None:
        partition = brokers.live[0].partition
        assert partition is not None
        end = partition.append(view()).last_offset + 1
        assert partition.when_committed(end, acks=1) is None
        wait = partition.when_committed(end)
        assert wait is not None
        await wait
        assert partition.high_watermark == end

    with_brokers(test, tmp_path)


def test_acks_all_with_a_shrunk_isr_fails_new_and_pending_appends(tmp_path: Path) -> None:
    async def test(brokers: Brokers) -> None:
        partition = brokers.live[0].partition
        assert partition is not None
        brokers.disconnected.update((1, 2))
        wait = partition.when_committed(partition.append(view()).last_offset + 1)
        assert wait is not None
        await publish(brokers, isr=(0,))
        with pytest.raises(NotEnoughReplicasAfterAppendError):
            await wait
        with pytest.raises(NotEnoughReplicasError):
            partition.append(view())
        assert partition.append(view(), acks=1).base_offset == 1
        assert partition.high_watermark == 0

    with_brokers(test, tmp_path)


def test_silent_follower_leaves_the_isr_and_rejoins(tmp_path: Path) -> None:
    async def test(brokers: Brokers) -> None:
        partition = brokers.live[0].partition
        assert partition is not None
        await asyncio.sleep(1)
        brokers.disconnected.add(2)
        wait = partition.when_committed(partition.append(view()).last_offset + 1)
        assert wait is not None
        async with asyncio.timeout(10):
            await wait
        assert brokers.state.isr == (0, 1)
        brokers.disconnected.clear()
        await brokers.settle()
        assert set(brokers.state.isr) == {0, 1, 2}

    with_brokers(test, tmp_path)


def test_returning_leader_truncates_to_the_new_leaders_log(tmp_path: Path) -> None:
    async def test(brokers: Brokers) -> None:
        old = brokers.live[0].partition
        assert old is not None
        await asyncio.sleep(1)
        brokers.disconnected.add(0)
        old.append(view(b"never acknowledged"), acks=1)
        await publish(brokers, leader=1, leader_epoch=1, isr=(1, 2))
        new = brokers.live[1].partition
        assert new is not None
        new.append(view(b"a"))
        brokers.disconnected.clear()
        await brokers.settle()
        assert [e.epoch for e in old.log.leader_epochs.entries] == [1]
        assert b"never" not in b"".join(bytes(data) for _, data in old.log.batches_from(0))

    with_brokers(test, tmp_path)


def test_follower_behind_the_leaders_log_start_restarts_there(tmp_path: Path) -> None:
    async def test(brokers: Brokers) -> None:
        leader, follower = brokers.live[0].partition, brokers.live[2].partition
        assert leader is not None
        assert follower is not None
        brokers.disconnected.add(2)
        await publish(brokers, isr=(0, 1))
        for _ in range(40):
            leader.append(view(b"x" * 500))
        await asyncio.sleep(3)  # time in which it might have rejoined
        leader.log.delete_records_before(30)
        brokers.disconnected.clear()
        await brokers.settle()
        assert follower.log.log_end_offset == 40
        assert follower.log.log_start_offset == 30

    with_brokers(test, tmp_path)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_throttled_replica_out_of_sync_is_fetched_slowly(tmp_path: Path, side: str) -> None:
    async def test(brokers: Brokers) -> None:
        leader, follower = brokers.live[0].partition, brokers.live[2].partition
        assert leader is not None
        assert follower is not None
        await publish(brokers, isr=(0, 1))
        brokers.disconnected.add(2)
        leader.throttled_leader = side == "leader"
        follower.throttled_follower = side == "follower"
        for broker in brokers.live.values():
            broker.partitions.leader_quota.bytes_per_second = 1000
            broker.partitions.follower_quota.bytes_per_second = 1000
        while leader.log.size < 20_000:
            leader.append(view(b"x" * 900))
        await asyncio.sleep(4)
        brokers.disconnected.clear()
        assert leader.high_watermark == leader.log.log_end_offset, "in-sync replicas are not throttled"
        began = asyncio.get_running_loop().time()
        await brokers.settle()
        assert 10 < asyncio.get_running_loop().time() - began < 40

    with_brokers(test, tmp_path)


def test_new_leader_is_fetched_from_at_once(tmp_path: Path) -> None:
    async def test(brokers: Brokers) -> None:
        await asyncio.sleep(2.1)
        await publish(brokers, leader=1, leader_epoch=1)
        new = brokers.live[1].partition
        assert new is not None
        wait = new.when_committed(new.append(view()).last_offset + 1)
        assert wait is not None
        async with asyncio.timeout(0.1):
            await wait

    with_brokers(test, tmp_path)


def test_in_sync_replica_with_a_missing_directory_gets_no_empty_log(tmp_path: Path) -> None:
    async def test(brokers: Brokers) -> None:
        partitions = brokers.live[1].partitions
        reported: list[TopicPartition] = []
        partitions._unopened_dirs = {"/data/b": "not writable"}
        partitions._on_dir_failure = reported.extend
        await publish(brokers, replicas=(0, 2), isr=(0, 2), leader_epoch=1)
        partitions.delete(TP)
        await publish(brokers, replicas=(1, 0, 2), isr=(1,), leader=1, leader_epoch=2)
        await publish(brokers, leader=-1, leader_epoch=3)
        assert partitions.get(TP) is None
        assert reported == [TP], "once"
        await publish(brokers, isr=(0,), leader=0, leader_epoch=4)
        assert partitions.get(TP) is not None, "a replica that is copied from the leader may start empty"

    with_brokers(test, tmp_path)


def test_disk_error_on_becoming_leader_takes_the_replica_out_of_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(brokers: Brokers) -> None:
        partitions = brokers.live[1].partitions
        reported: list[TopicPartition] = []
        partitions._on_dir_failure = reported.extend
        partition = partitions.get(TP)
        assert partition is not None

        def fail(epoch: int, start_offset: int) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patched:
            patched.setattr(partition.log.leader_epochs, "assign", fail)
            await publish(brokers, leader=1, leader_epoch=1)
        assert reported == [TP]
        with pytest.raises(KafkaStorageError):
            partition.append(view())

    with_brokers(test, tmp_path)


def test_log_that_cannot_be_truncated_does_not_delay_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(brokers: Brokers) -> None:
        old = brokers.live[0].partition
        assert old is not None
        await asyncio.sleep(1)
        brokers.disconnected.add(0)
        old.append(view(b"never acknowledged"), acks=1)

        truncate_to = Log.truncate_to

        def fail(log: Log, offset: int) -> bool:
            if log is old.log:
                raise OSError(5, "Input/output error")
            return truncate_to(log, offset)

        monkeypatch.setattr(Log, "truncate_to", fail)
        await publish(brokers, leader=1, leader_epoch=1, isr=(1, 2))
        brokers.disconnected.clear()
        await asyncio.sleep(5)
        assert old.failed

    with_brokers(test, tmp_path)


@pytest.mark.parametrize(("version", "code"), [(4, 5), (5, 78)])
def test_list_offsets_before_the_epoch_start_is_not_available(tmp_path: Path, version: int, code: int) -> None:
    async def test(brokers: Brokers) -> None:
        leader = brokers.live[0].partition
        assert leader is not None
        await asyncio.sleep(1)
        leader.append(view())
        await brokers.settle()
        new = brokers.live[1]
        assert new.partition is not None
        new.partition.log.high_watermark = 0  # the response with the new one has not arrived yet
        brokers.disconnected.update((0, 2))
        await publish(brokers, leader=1, leader_epoch=1)
        call = request_context(new.context, version)

        def list_offsets_at(time: int, replica_id: int = -1) -> tuple[int, int]:
            requested = ListOffsetsPartition(partition_index=0, timestamp=time)
            topic = ListOffsetsTopic(name="t", partitions=[requested])
            response = list_offsets.handle(ListOffsetsRequest(replica_id=replica_id, topics=[topic]), call)
            assert isinstance(response, ListOffsetsResponse)
            return response.topics[0].partitions[0].error_code, response.topics[0].partitions[0].offset

        assert list_offsets_at(LATEST_TIMESTAMP)[0] == code
        assert list_offsets_at(0)[0] == code, "also by timestamp"
        assert list_offsets_at(EARLIEST_TIMESTAMP) == (0, 0)
        assert list_offsets_at(LATEST_TIMESTAMP, replica_id=0) == (0, 1)
        brokers.disconnected.clear()
        await brokers.settle()
        assert list_offsets_at(LATEST_TIMESTAMP) == (0, 1)

    with_brokers(test, tmp_path)


def delete_records_before(broker: Broker, offset: int, timeout_ms: int = 30_000) -> Awaitable[tuple[int, int]]:
    """Delete records, and return the error code and the low watermark of the response when it is awaited."""
    topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)
    pending = delete_records.handle(request, request_context(broker.context, 2))
    assert isinstance(pending, Awaitable)

    async def result() -> tuple[int, int]:
        (result,) = (await pending).topics[0].partitions
        return result.error_code, result.low_watermark

    return result()


def test_delete_records_completes_when_live_followers_have_deleted_them(tmp_path: Path) -> None:
    async def test(brokers: Brokers) -> None:
        broker = brokers.live[0]
        assert broker.partition is not None
        for _ in range(3):
            broker.partition.append(view())
        await brokers.settle()
        await publish(brokers)

        assert await delete_records_before(broker, 2) == (0, 2)
        assert [b.partition.log.log_start_offset for b in brokers.live.values() if b.partition] == [2, 2, 2]
        brokers.disconnected.add(2)
        assert await delete_records_before(broker, 3, timeout_ms=1000) == (RequestTimedOutError.code, 2)

    with_brokers(test, tmp_path)


def test_delete_records_reports_the_offset_if_a_broker_starts_when_the_records_are_deleted(tmp_path: Path) -> None:
    async def test(brokers: Brokers) -> None:
        leader = brokers.live[0]
        assert leader.partition is not None
        leader.partition.append(view())
        await brokers.settle()
        brokers.kill(2)
        await publish(brokers)
        pending = delete_records_before(leader, 1)
        await asyncio.sleep(10)
        assert leader.partition.leader_replica.low_watermark([0, 1]) == 1
        brokers.disconnected.add(2)
        await brokers.restart(2)
        await publish(brokers)
        assert leader.partition.leader_replica.low_watermark([0, 1, 2]) == 0
        assert await pending == (0, 1)

    with_brokers(test, tmp_path)
