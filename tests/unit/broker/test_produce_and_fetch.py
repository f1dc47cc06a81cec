"""Produce and Fetch: acknowledgements, limits, waiting fetches, fetch sessions, and old versions."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, batch, with_broker
from tests.unit.broker.produce_and_fetch import create, fetch_request, produce, produce_request, values

from ottla.broker.handlers import fetch
from ottla.broker.handlers.produce import COMPRESSED_AT_ONCE
from ottla.broker.sessions import fetch_sessions
from ottla.cluster.store.metadata_store import Delete
from ottla.errors import FetchSessionIdNotFoundError, StartupError, UnknownProducerIdError
from ottla.model import TopicPartition
from ottla.net.server.connection import CloseConnectionError
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.produce import PartitionProduceData
from ottla.records import compression
from ottla.records.builder import BatchBuilder
from ottla.records.conversion import down_converted
from ottla.records.legacy_message_set import magic_of
from ottla.records.legacy_message_set import records as message_records
from ottla.storage.log import Log


@pytest.mark.parametrize("version", range(4, 13))
def test_produced_records_are_fetched_in_every_version(tmp_path: Path, version: int) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        for expected, data in ((0, batch(b"a", b"b")), (2, batch(b"c"))):
            partition_response = await produce(client, data)
            assert (partition_response.error_code, partition_response.base_offset) == (0, expected)
        response = await client.request(fetch_request(), version)
        assert values(response) == [b"a", b"b", b"c"]
        assert response.responses[0].partitions[0].high_watermark == 3

    with_broker(test, tmp_path)


def test_topics_are_identified_by_id_from_version_13_on(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        topic_id = client.context.image.topics["t"].id
        request = produce_request(batch(b"a"), topic="")
        request.topic_data[0].topic_id = topic_id
        response = await client.request(request, 13)
        assert response.responses[0].partition_responses[0].error_code == 0
        fetch = fetch_request(topic="")
        fetch.topics[0].topic_id = topic_id
        assert values(await client.request(fetch, 17)) == [b"a"]
        fetch.topics[0].topic_id = type(topic_id)(int=99)
        assert (await client.request(fetch, 17)).responses[0].partitions[0].error_code == 100

    with_broker(test, tmp_path)


@pytest.mark.parametrize(
    ("topic", "partition", "code"), [("nowhere", 0, 3), ("t", 9, 3), ("__consumer_offsets", 0, 17)]
)
def test_produce_to_an_unknown_partition_or_internal_topic_is_rejected(
    tmp_path: Path, topic: str, partition: int, code: int
) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        await create(client, "__consumer_offsets")
        assert (await produce(client, batch(b"a"), topic, partition)).error_code == code

    with_broker(test, tmp_path)


def test_invalid_acks_are_rejected(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        response = await client.request(produce_request(batch(b"a"), acks=2), 9)
        assert response.responses[0].partition_responses[0].error_code == 21

    with_broker(test, tmp_path)


def test_acks_0_has_no_response_and_a_failure_closes_the_connection(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        assert client.send(produce_request(batch(b"a"), acks=0), 9) is None
        assert values(await client.request(fetch_request(), 11)) == [b"a"]
        with pytest.raises(CloseConnectionError):
            client.send(produce_request(batch(b"a"), "nowhere", acks=0), 9)

    with_broker(test, tmp_path)


def test_batch_above_max_message_bytes_is_rejected(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, max_message_bytes="1000")
        rejected = await produce(client, batch(bytes(1000)))
        assert rejected.error_code == 10
        assert "max.message.bytes" in (rejected.error_message or "")
        assert (await produce(client, batch(bytes(100)))).base_offset == 0

    with_broker(test, tmp_path)


def test_duplicate_idempotent_batch_returns_its_original_offset(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        for sequence, offset in ((0, 0), (1, 1), (0, 0), (1, 1), (2, 2)):
            data = batch(b"x", producer_id=5, producer_epoch=0, base_sequence=sequence)
            partition_response = await produce(client, data)
            assert (partition_response.error_code, partition_response.base_offset) == (0, offset)
        out_of_order = await produce(client, batch(b"x", producer_id=5, producer_epoch=0, base_sequence=9))
        assert out_of_order.error_code == 45
        assert len(values(await client.request(fetch_request(), 11))) == 3

    with_broker(test, tmp_path)


def test_produce_with_flush_messages_1_waits_for_the_fsync(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, flush_messages="1")
        partition_responses = await asyncio.gather(*(produce(client, batch(b"%d" % i)) for i in range(20)))
        assert sorted(p.base_offset for p in partition_responses) == list(range(20))
        (partition,) = [p for p in client.context.partitions if p.topic_partition.topic == "t"]
        assert partition.log.recovery_point == partition.high_watermark == 20

    with_broker(test, tmp_path)


def test_fetch_waits_for_min_bytes(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        await produce(client, batch(b"a"))
        waiting = asyncio.ensure_future(client.request(fetch_request(wait=15_000, min_bytes=150), 11))
        await asyncio.sleep(0)
        assert not waiting.done()
        await produce(client, batch(b"b" * 100))
        assert values(await waiting) == [b"a", b"b" * 100]

    with_broker(test, tmp_path)


@pytest.mark.parametrize(
    "limits",
    [{"partition_max": 1000, "min_bytes": 1000}, {"max_bytes": 1000, "min_bytes": 1_000_000}],
    ids=["partition_max_bytes", "max_bytes"],
)
def test_fetch_does_not_wait_for_min_bytes_if_a_limit_has_cut_off_batches(
    limits: dict[str, Any], tmp_path: Path
) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        for _ in range(3):
            await produce(client, batch(b"x" * 350))
        fetching = client.request(fetch_request(wait=60_000, **limits), 11)
        assert len(values(await asyncio.wait_for(fetching, 5))) == 2

    with_broker(test, tmp_path)


def test_fetch_session_names_a_preferred_read_replica_without_other_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        full = await client.request(fetch_request(session_epoch=0), 12)
        monkeypatch.setattr(fetch, "preferred_read_replica", lambda *args: 7)
        request = FetchRequest(max_wait_ms=0, session_id=full.session_id, session_epoch=1, rack_id="near")
        response = await client.request(request, 12)
        assert [p.preferred_read_replica for t in response.responses for p in t.partitions] == [7]

    with_broker(test, tmp_path)


def test_fetch_without_records_is_empty_after_max_wait_ms(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        response = await client.request(fetch_request(wait=20), 11)
        assert values(response) == []
        assert response.responses[0].partitions[0].error_code == 0

    with_broker(test, tmp_path)


def test_waiting_fetch_does_not_read_again_without_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0

    class CountedFetch(fetch.Fetch):
        def read(self, *arguments: Any) -> Any:
            nonlocal reads
            reads += 1
            return super().read(*arguments)

    async def test(client: BrokerClient) -> None:
        await create(client)
        monkeypatch.setattr(fetch, "Fetch", CountedFetch)
        waiting = asyncio.ensure_future(client.request(fetch_request(wait=15_000), 11))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        assert reads == 1
        await produce(client, batch(b"a"))
        assert values(await waiting) == [b"a"]

    with_broker(test, tmp_path)


def test_fetch_whose_connection_closes_before_it_waits_is_forgotten(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        waiting = client.send(fetch_request(wait=15_000), 11)
        partition = client.context.partitions.get(TopicPartition("t", 0))
        assert partition is not None
        assert partition._waiters
        for callback in client.connection.on_close:
            callback()
        assert not partition._waiters
        await waiting  # completes at once

    with_broker(test, tmp_path)


def test_waiting_fetch_ends_when_its_topic_is_deleted(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        waiting = asyncio.ensure_future(client.request(fetch_request(wait=15_000), 11))
        await asyncio.sleep(0)
        await client.context.controller.topics.delete("t")
        assert (await waiting).responses[0].partitions[0].error_code == 3

    with_broker(test, tmp_path)


def test_fetch_offset_beyond_the_log_is_out_of_range(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        response = await client.request(fetch_request(offset=5, wait=1000), 11)
        assert response.responses[0].partitions[0].error_code == 1

    with_broker(test, tmp_path)


def test_fetch_with_an_old_or_unknown_leader_epoch_is_fenced(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        (partition,) = list(client.context.partitions)
        partition.image = type(partition.image)(0, 3, (0,), (0,))
        for epoch, code in ((2, 74), (3, 0), (4, 75), (-1, 0)):
            request = fetch_request()
            request.topics[0].partitions[0].current_leader_epoch = epoch
            assert (await client.request(request, 11)).responses[0].partitions[0].error_code == code

    with_broker(test, tmp_path)


def test_first_batch_is_returned_whole_despite_the_limits(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, partitions=2)
        for partition in (0, 1):
            await produce(client, batch(bytes(5000)), partition=partition)
        request = fetch_request(partition_max=10, max_bytes=10)
        request.topics[0].partitions.append(FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=10))
        assert len(values(await client.request(request, 11))) == 1

    with_broker(test, tmp_path)


def test_fetch_session_returns_only_changes(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, partitions=2)
        await produce(client, batch(b"a"))
        request = fetch_request(session_epoch=0)
        request.topics[0].partitions.append(FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1000))
        full = await client.request(request, 11)
        assert full.session_id != 0
        assert len(full.responses[0].partitions) == 2

        def more(epoch: int, *topics: FetchTopic, **also: Any) -> FetchRequest:
            return FetchRequest(
                max_wait_ms=0, min_bytes=1, session_id=full.session_id, session_epoch=epoch, topics=list(topics), **also
            )

        advanced = FetchTopic(
            topic="t", partitions=[FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1000)]
        )
        assert (await client.request(more(1, advanced), 11)).responses == []
        await produce(client, batch(b"b"), partition=1)
        changed = await client.request(more(2), 11)
        assert [p.partition_index for p in changed.responses[0].partitions] == [1]
        removed = [ForgottenTopic(topic="t", partitions=[1])]
        await produce(client, batch(b"c"), partition=1)
        assert (await client.request(more(3, forgotten_topics_data=removed), 11)).responses == []
        assert (await client.request(more(9), 11)).error_code == 71
        assert (await client.request(more(-1), 11)).error_code == 0
        assert (await client.request(more(4), 11)).error_code == 70

    with_broker(test, tmp_path)


def test_fetch_session_cache_is_bounded_and_evicts_an_idle_session(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        async def open_session() -> int:
            return (await client.request(fetch_request(session_epoch=0), 11)).session_id

        async def fetch_in_session(session_id: int) -> int:
            request = FetchRequest(max_wait_ms=0, min_bytes=1, session_id=session_id, session_epoch=1)
            return (await client.request(request, 11)).error_code

        await create(client)
        seconds = 0.0
        client.context.fetch_sessions._monotonic = lambda: seconds
        first, second = await open_session(), await open_session()
        assert await open_session() == 0, "answered without a session"
        seconds = 119.0
        assert await fetch_in_session(first) == 0
        seconds = 120.0
        assert await open_session() != 0
        assert len(client.context.fetch_sessions) == 2
        assert await fetch_in_session(second) == 70

    with_broker(test, tmp_path, max_incremental_fetch_session_cache_slots=2)


def test_unexpected_exception_is_an_unknown_server_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    async def test(client: BrokerClient) -> None:
        await create(client)
        monkeypatch.setattr(client.context.fetch_sessions, "context", broken)
        response = await client.request(fetch_request(), 11)
        assert response.error_code == -1
        older = await client.request(fetch_request(), 4)
        (topic,) = older.responses
        assert (topic.topic, topic.partitions[0].error_code) == ("t", -1)

    with_broker(test, tmp_path)


def test_waiting_fetch_is_answered_when_the_broker_stops(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        waiting = asyncio.ensure_future(client.request(fetch_request(wait=15_000), 11))
        await asyncio.sleep(0)
        await client.context.partitions.close()
        assert (await waiting).responses[0].partitions[0].error_code == 6

    with_broker(test, tmp_path)


def test_transactional_batch_is_rejected_without_its_coordinator(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        data = batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
        assert (await produce(client, data)).error_code == 48
        assert values(await client.request(fetch_request(isolation_level=1), 11)) == []

    with_broker(test, tmp_path)


@pytest.mark.parametrize(("produced", "magic"), [(0, 0), (1, 0), (2, 1)])
@pytest.mark.parametrize("fetched", [0, 1, 2, 3])
def test_clients_of_old_message_formats_produce_and_fetch(
    tmp_path: Path, produced: int, magic: int, fetched: int
) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        old = bytearray(down_converted(batch(b"a", b"b"), magic))
        assert (await produce(client, old, version=produced)).base_offset == 0
        assert (await produce(client, batch(b"c"))).base_offset == 2
        assert values(await client.request(fetch_request(), 11)) == [b"a", b"b", b"c"]
        response = await client.request(fetch_request(), fetched)
        data = response.responses[0].partitions[0].records
        assert data is not None
        assert [(r.offset, r.value) for r in message_records(data)] == [(0, b"a"), (1, b"b"), (2, b"c")]
        assert magic_of(data) == (0 if fetched < 2 else 1)

    with_broker(test, tmp_path)


def test_fetch_does_not_wait_for_min_bytes_at_the_end_of_a_segment(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, segment_bytes="500")
        for _ in range(6):
            await produce(client, batch(b"x" * 200))
        response = await client.request(fetch_request(wait=15_000, min_bytes=100_000), 11)
        assert len(values(response)) == 1

    with_broker(test, tmp_path)


def test_leader_epoch_without_records_ends_at_the_log_end_offset(tmp_path: Path) -> None:
    """Each start begins a leader epoch; a consumer must not detect a truncation from one without records."""

    async def first(client: BrokerClient) -> None:
        await create(client)
        await produce(client, batch(b"a", b"b"))

    async def second(client: BrokerClient) -> None:
        requested = ListOffsetsRequest(
            replica_id=-1,
            topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])],
        )
        actual = (await client.request(requested, 7)).topics[0].partitions[0]
        assert (actual.offset, actual.leader_epoch) == (2, 0)
        for epoch, expected in ((0, (0, 2)), (1, (1, 2))):
            partition = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
            request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[partition])])
            end = (await client.request(request, 4)).topics[0].partitions[0]
            assert (end.leader_epoch, end.end_offset) == expected

    with_broker(first, tmp_path)
    with_broker(second, tmp_path)


def test_log_of_a_deleted_topic_is_not_reused_by_a_new_topic_of_its_name(tmp_path: Path) -> None:
    """Its znodes were deleted while no broker could delete the log, for example by hand."""

    async def first(client: BrokerClient) -> None:
        await create(client)
        await produce(client, batch(b"old"))
        paths = ["partitions/0/state", "partitions/0", "partitions", ""]
        nodes = [Delete(f"/brokers/topics/t/{path}".rstrip("/")) for path in paths]
        await client.context.controller._context.store.multi([*nodes, Delete("/config/topics/t")])

    async def second(client: BrokerClient) -> None:
        await create(client)
        assert values(await client.request(fetch_request(), 11)) == []
        assert list(tmp_path.glob("t-0.*-stray"))

    with_broker(first, tmp_path)
    with_broker(second, tmp_path)


def test_failed_start_does_not_mark_unopened_data_as_cleanly_shut_down(tmp_path: Path) -> None:
    async def first(client: BrokerClient) -> None:
        await create(client)
        await produce(client, batch(b"kept"))

    with_broker(first, tmp_path)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        with pytest.raises(StartupError):
            with_broker(first, tmp_path, listeners=f"PLAINTEXT://127.0.0.1:{bound.getsockname()[1]}")
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert "t 0 1" in (tmp_path / "replication-offset-checkpoint").read_text()


@pytest.mark.parametrize("producer_id", [2**63 - 1, 2**40, 5_000_000])
def test_unallocated_producer_id_is_rejected_and_does_not_exhaust_producer_ids(
    tmp_path: Path, producer_id: int
) -> None:
    async def before_restart(client: BrokerClient) -> None:
        await create(client)
        unknown = await produce(client, batch(b"a", producer_id=producer_id, producer_epoch=0, base_sequence=0))
        assert unknown.error_code == UnknownProducerIdError.code
        assert (await produce(client, batch(b"a"))).error_code == 0

    async def after_restart(client: BrokerClient) -> None:
        response = await client.request(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)
        assert response.error_code == 0
        data = batch(b"b", producer_id=response.producer_id, producer_epoch=0, base_sequence=0)
        assert (await produce(client, data)).error_code == 0

    with_broker(before_restart, tmp_path)
    with_broker(after_restart, tmp_path)


def test_fetch_with_duplicate_partitions_reads_them_once(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        await produce(client, batch(b"a"))
        request = fetch_request()
        request.topics[0].partitions *= 3000
        (topic,) = (await client.request(request, 12)).responses
        assert len(topic.partitions) == 1
        request.max_wait_ms, request.topics[0].partitions[0].fetch_offset = 60_000, 1
        waiting = asyncio.ensure_future(client.send(request, 12))
        partition = client.context.partitions.get(TopicPartition("t", 0))
        assert partition is not None
        while not partition._waiters:
            await asyncio.sleep(0)
        await produce(client, batch(b"b"))
        await asyncio.wait_for(waiting, 10)

    with_broker(test, tmp_path)


def test_fetch_above_the_partition_limit_opens_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t", 5)
        monkeypatch.setattr(fetch_sessions, "MAX_PARTITIONS", 4)
        request = fetch_request(session_epoch=0)
        request.topics[0].partitions = [FetchPartition(partition=i, partition_max_bytes=1) for i in range(5)]
        assert (await client.request(request, 12)).session_id == 0
        assert not len(client.context.fetch_sessions)
        request.topics[0].partitions.pop()
        session_id = (await client.request(request, 12)).session_id
        more = fetch_request(session_id=session_id, session_epoch=1)
        more.topics[0].partitions = [FetchPartition(partition=4, partition_max_bytes=1)]
        assert (await client.request(more, 12)).error_code == FetchSessionIdNotFoundError.code
        assert not len(client.context.fetch_sessions)

    with_broker(test, tmp_path)


@pytest.mark.parametrize("acks", [1, -1])
def test_compressed_batches_of_a_request_do_not_delay_other_tasks(tmp_path: Path, acks: int) -> None:
    """Each may decompress to many megabytes, whatever the size of the request."""

    async def test(client: BrokerClient) -> None:
        await create(client, partitions=20)
        builder = BatchBuilder(bytearray(2000), compression.ZSTD)
        for i in range(3):
            builder.append(1_700_000_000_000 + i, b"k", bytes(100))
        packed = bytes(builder.close())
        request = produce_request(bytearray(), acks=acks)
        request.topic_data[0].partition_data = [
            PartitionProduceData(index=i, records=bytearray(packed if i != 7 else packed[:-1])) for i in range(20)
        ]
        appends_per_turn: list[int] = []
        real = Log.append

        def append(log: Log, *args: Any, **kwargs: Any) -> Any:
            appends_per_turn[-1] += 1
            return real(log, *args, **kwargs)

        async def count_turns() -> None:
            while True:
                appends_per_turn.append(0)
                await asyncio.sleep(0)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Log, "append", append)
            ticking = asyncio.create_task(count_turns())
            response = await client.request(request, 9)
            ticking.cancel()
        errors = [p.error_code for p in response.responses[0].partition_responses]
        assert errors == [0] * 7 + [87] + [0] * 12
        assert sum(appends_per_turn) == 19
        assert max(appends_per_turn) <= COMPRESSED_AT_ONCE + 1

    with_broker(test, tmp_path)
