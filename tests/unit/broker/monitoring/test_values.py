"""Values of metrics after requests to a broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, batch, with_broker
from tests.unit.broker.group_requests import commit, join, prepare
from tests.unit.broker.monitoring.scraping import Scraped, scraped
from tests.unit.broker.produce_and_fetch import create, fetch_request, produce, produce_request

from ottla.broker.monitoring import group_lag
from ottla.broker.monitoring.event_loop_time import EventLoopTime
from ottla.broker.monitoring.request_stats import QUEUE_SAMPLING, RequestStats
from ottla.broker.monitoring.scrape import SLICE_SECONDS, Scrape, most_rebalanced
from ottla.cluster.interbroker.membership_proof import MEMBER
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

TOPICS = "kafka_server_brokertopicmetrics_"
REQUESTS = "kafka_network_requestmetrics_"
GROUPS = "kafka_server_group_coordinator_metrics_"


def per_topic(metrics: Scraped, name: str) -> tuple[list[float], list[float]]:
    """Return the values of a counter: of topic t, and of all topics."""
    return metrics.values(TOPICS + name, topic="t"), metrics.values(TOPICS + name)


def test_records_and_bytes_are_counted_per_topic_and_in_total(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t")
        await create(client, "u")
        data = batch(b"a", b"b", b"c")
        await produce(client, bytearray(data))
        await produce(client, bytearray(data), topic="u")
        await client.request(fetch_request(0), 12)
        metrics = await scraped(client.node)
        assert per_topic(metrics, "messagesin_total") == ([3], [6])
        assert per_topic(metrics, "bytesin_total") == ([len(data)], [2 * len(data)])
        assert per_topic(metrics, "bytesout_total") == ([len(data)], [len(data)])
        assert per_topic(metrics, "totalproducerequests_total") == ([1], [2])
        assert per_topic(metrics, "totalfetchrequests_total") == ([1], [1])
        assert per_topic(metrics, "failedproducerequests_total") == ([0], [0])
        assert metrics.values(TOPICS + "replicationbytesout_total") == [0]

    with_broker(test, tmp_path)


def test_duplicate_of_an_idempotent_producer_is_not_counted_again(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t")
        for _ in range(2):
            await produce(client, batch(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0))
        assert per_topic(await scraped(client.node), "messagesin_total") == ([2], [2])

    with_broker(test, tmp_path)


def test_rejected_batches_are_counted_by_reason_and_logged_with_the_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ottla.request.rejected")

    async def test(client: BrokerClient) -> None:
        await create(client, "t", cleanup_policy="compact", max_message_bytes="1000")
        corrupt = batch(b"a")
        corrupt[-1] ^= 1
        large = batch(b"x" * 2000)
        responses = [
            await client.request(produce_request(data), 9)
            for data in (corrupt, bytearray(large), batch(b"no key", key=None))
        ]
        await client.request(produce_request(bytearray(large)), 9)
        assert all(response.responses[0].partition_responses[0].error_code for response in responses)
        metrics = await scraped(client.node)
        assert per_topic(metrics, "invalidmessagecrcrecords_total") == ([1], [1])
        assert per_topic(metrics, "bytesrejected_total") == ([2 * len(large)], [2 * len(large)])
        assert per_topic(metrics, "nokeycompactedtopicrecords_total") == ([1], [1])
        assert per_topic(metrics, "failedproducerequests_total") == ([4], [4])
        assert per_topic(metrics, "messagesin_total") == ([0], [0])
        rejected = [record.getMessage() for record in caplog.records if record.name == "ottla.request.rejected"]
        start = "Rejected a batch for t-0 (requested by User:ANONYMOUS from 127.0.0.1, client_id=tester) with "
        assert [text.removeprefix(start).partition(":")[0] for text in rejected] == [
            "CORRUPT_MESSAGE",
            "MESSAGE_TOO_LARGE",
            "INVALID_RECORD",
        ]
        assert f"a batch of {len(large)} bytes is larger than max.message.bytes=1000" in rejected[1]

    with_broker(test, tmp_path)


def test_counts_of_a_deleted_topic_remain_in_the_totals(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t")
        await produce(client, batch(b"a"))
        await client.request(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 3)
        assert per_topic(await scraped(client.node), "messagesin_total") == ([], [1])

    with_broker(test, tmp_path)


def test_requests_are_counted_by_version_and_their_errors_by_name(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await client.request(ApiVersionsRequest(), 0)
        await client.request(ApiVersionsRequest(), 1)
        await client.request(ApiVersionsRequest(), 1)
        await client.request(produce_request(batch(b"a"), topic="missing"), 9)
        metrics = await scraped(client.node)
        assert metrics.value(REQUESTS + "requests_total", request="ApiVersions", version="0") == 1
        assert metrics.value(REQUESTS + "requests_total", request="ApiVersions", version="1") == 2
        assert metrics.value(REQUESTS + "errors_total", request="ApiVersions", error="NONE") == 3
        errors = metrics.value(REQUESTS + "errors_total", request="Produce", error="UNKNOWN_TOPIC_OR_PARTITION")
        assert errors == 1

    with_broker(test, tmp_path)


def test_errors_of_partitions_added_to_a_transaction_are_counted(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        topics = [AddPartitionsToTxnTopic(name="missing", partitions=[0, 1])]
        request = AddPartitionsToTxnRequest(v3_and_below_transactional_id="x", v3_and_below_topics=topics)
        await client.request(request, 3)
        metrics = await scraped(client.node)
        error = "UNKNOWN_TOPIC_OR_PARTITION"
        assert metrics.value(REQUESTS + "errors_total", request="AddPartitionsToTxn", error=error) == 2

    with_broker(test, tmp_path)


def test_error_codes_of_a_large_response_are_all_counted(tmp_path: Path) -> None:
    topics = 3000  # encoded in several slices

    async def test(client: BrokerClient) -> None:
        requested = [MetadataRequestTopic(name=f"missing-{i}") for i in range(topics)]
        await client.request(MetadataRequest(topics=requested, allow_auto_topic_creation=False), 9)
        metrics = await scraped(client.node)
        unknown = metrics.value(REQUESTS + "errors_total", request="Metadata", error="UNKNOWN_TOPIC_OR_PARTITION")
        assert unknown == topics

    with_broker(test, tmp_path)


def test_waiting_fetch_counts_as_remote_time_and_in_the_purgatory_size(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t")
        waiting = asyncio.ensure_future(client.request(fetch_request(0, wait=10_000), 12))
        while not (await scraped(client.node)).value(
            "kafka_server_delayedoperationpurgatory_purgatorysize", delayedOperation="Fetch"
        ):
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        await produce(client, batch(b"a"))
        await waiting
        metrics = await scraped(client.node)
        remote, local, total = (
            metrics.value(f"{REQUESTS}{phase}timems_sum", request="FetchConsumer")
            for phase in ("remote", "local", "total")
        )
        assert remote >= 50
        assert local < remote
        assert total == pytest.approx(remote + local, abs=1)
        assert metrics.value("kafka_server_delayedoperationpurgatory_purgatorysize", delayedOperation="Fetch") == 0

    with_broker(test, tmp_path)


def test_immediate_response_has_no_remote_time(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await client.request(ApiVersionsRequest(), 0)
        metrics = await scraped(client.node)
        assert metrics.value(REQUESTS + "remotetimems_sum", request="ApiVersions") == 0
        assert metrics.value(REQUESTS + "remotetimems_count", request="ApiVersions") == 1
        assert metrics.value(REQUESTS + "totaltimems_sum", request="ApiVersions") > 0

    with_broker(test, tmp_path)


def test_follower_and_consumer_fetches_are_counted_separately(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t")
        await client.request(fetch_request(0), 12)
        client.connection.state[MEMBER] = True
        await client.request(fetch_request(0), 12)
        metrics = await scraped(client.node)
        counts = {
            request: sum(metrics.values(REQUESTS + "requests_total", request=request))
            for request in ("FetchConsumer", "FetchFollower", "Fetch")
        }
        assert counts == {"FetchConsumer": 1, "FetchFollower": 1, "Fetch": 2}

    with_broker(test, tmp_path)


def test_standalone_broker_reports_replica_and_controller_gauges(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t", partitions=2)
        metrics = await scraped(client.node)
        gauges = {
            "kafka_server_kafkaserver_brokerstate": 3,
            "kafka_server_replicamanager_partitioncount": 2,
            "kafka_server_replicamanager_leadercount": 2,
            "kafka_server_replicamanager_underreplicatedpartitions": 0,
            "kafka_controller_kafkacontroller_activecontrollercount": 1,
            "kafka_controller_kafkacontroller_globaltopiccount": 1,
            "kafka_controller_kafkacontroller_globalpartitioncount": 2,
            "kafka_controller_kafkacontroller_offlinepartitionscount": 0,
            "kafka_controller_kafkacontroller_activebrokercount": 1,
            "kafka_log_logmanager_offlinelogdirectorycount": 0,
        }
        assert {name: metrics.value(name) for name in gauges} == gauges

    with_broker(test, tmp_path)


def test_log_gauges_report_size_and_offsets(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t")
        data = batch(b"a", b"b")
        await produce(client, data)
        metrics = await scraped(client.node)
        values = {
            name: metrics.value(f"kafka_log_log_{name}", topic="t", partition="0")
            for name in ("size", "logstartoffset", "logendoffset", "numlogsegments")
        }
        assert values == {"size": len(data), "logstartoffset": 0, "logendoffset": 2, "numlogsegments": 1}
        assert metrics.value("ottla_log_directory_free_bytes", logDirectory=str(tmp_path)) > 0

    with_broker(test, tmp_path)


def test_log_flush_is_measured(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t", flush_messages="1")
        await produce(client, batch(b"a"))
        assert (await scraped(client.node)).value("kafka_log_logflushstats_logflushrateandtimems_count") == 1

    with_broker(test, tmp_path)


def test_committed_offsets_and_groups_are_counted(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        joined = await join(client)
        assert await commit(client, 3, generation_id_or_member_epoch=1, member_id=joined.member_id) == 0
        metrics = await scraped(client.node)
        assert metrics.value(GROUPS + "offset_commit_count") == 1
        assert metrics.value(GROUPS + "group_count", protocol="classic") == 1
        assert metrics.value("kafka_coordinator_group_groupmetadatamanager_numoffsets") == 1
        assert metrics.value("kafka_coordinator_group_groupmetadatamanager_numgroupsstable") == 1
        assert metrics.value(GROUPS + "group_completed_rebalance_count") == 1
        assert metrics.value(GROUPS + "group_completed_rebalance_rate") == pytest.approx(1 / 30)
        assert metrics.value("kafka_consumergroup_rebalances_total", consumergroup="g") == 1
        assert "kafka_consumergroup_rebalance_seconds" not in metrics.names
        joining = asyncio.ensure_future(join(client))
        while "kafka_consumergroup_rebalance_seconds" not in metrics.names:
            metrics = await scraped(client.node)
        assert 0 <= metrics.value("kafka_consumergroup_rebalance_seconds", consumergroup="g") < 10
        joining.cancel()
        assert metrics.value(GROUPS + "num_partitions", state="active") == 3

    with_broker(test, tmp_path)


def test_groups_with_the_most_rebalances_are_reported() -> None:
    rebalances = {f"g{i}": i for i in range(10)}
    assert most_rebalanced(rebalances, 2) == {"g9": 9, "g8": 8}


def test_scrape_of_many_partitions_yields_to_other_tasks(tmp_path: Path) -> None:
    """A scrape of 100,000 replicas takes much longer than a slice; the longest pause of another task stays short."""

    async def test(client: BrokerClient) -> None:
        await create(client, "t")
        broker = client.node.monitored
        assert broker is not None
        scrape = Scrape(broker)
        scrape.partitions *= 100_000
        loop, steps = asyncio.get_running_loop(), 0
        ended = asyncio.ensure_future(scrape.prepare())
        while not ended.done():
            await asyncio.sleep(0)
            steps += 1
        assert scrape.replicas.leaders == 100_000
        assert steps > 10, f"one step per {SLICE_SECONDS} s is expected"
        assert loop is asyncio.get_running_loop()

    with_broker(test, tmp_path)


def test_event_loop_time_is_split_into_idle_and_busy() -> None:
    loop_time = EventLoopTime()

    async def test() -> None:
        await asyncio.sleep(0.1)
        assert loop_time.idle_seconds > 0.05
        busy = loop_time.busy_seconds
        until = asyncio.get_running_loop().time() + 0.1
        while asyncio.get_running_loop().time() < until:
            pass
        await asyncio.sleep(0)
        assert loop_time.busy_seconds - busy > 0.05
        assert 0 < loop_time.idle_fraction() < 1

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(loop_time)) as runner:
        runner.run(test())


def test_queue_time_is_sampled() -> None:
    class Woken:
        woken_at = 0.0

    stats = RequestStats(Woken()).add("Produce")
    for _ in range(2 * QUEUE_SAMPLING):
        stats.record(9, 100, began=0.5)
    queue = stats.queue.snapshot(0.0)
    assert (queue.count, queue.seconds) == (2, 1.0)
    assert stats.versions == {9: 2 * QUEUE_SAMPLING}


def test_cancelled_request_no_longer_counts_as_waiting() -> None:
    async def test() -> None:
        stats = RequestStats().add("Fetch")
        never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        request = asyncio.ensure_future(stats.measured(never, 12, 100, 0.0))
        await asyncio.sleep(0)
        assert stats.waiting == 1
        request.cancel()
        await asyncio.wait([request])
        assert stats.waiting == 0

    asyncio.run(test())


def test_group_lag_is_the_log_end_offset_minus_the_committed_offset(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        joined = await join(client)
        await produce(client, batch(b"a", b"b", b"c", b"d"))
        await commit(client, 1, generation_id_or_member_epoch=1, member_id=joined.member_id)
        metrics = await scraped(client.node)
        group = {"consumergroup": "g", "topic": "t"}
        assert metrics.value("kafka_consumergroup_lag", **group, partition="0") == 3
        assert metrics.value("kafka_consumergroup_lag_sum", **group) == 3
        assert metrics.value("kafka_consumergroup_current_offset", **group, partition="0") == 1
        assert metrics.value("kafka_consumergroup_members", consumergroup="g") == 1
        assert metrics.value("ottla_consumer_groups_omitted_offsets") == 0

    with_broker(test, tmp_path)


def test_group_offsets_above_the_limit_are_omitted_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_lag, "MAX_OFFSETS", 0)

    async def test(client: BrokerClient) -> None:
        await prepare(client)
        joined = await join(client)
        await commit(client, 1, generation_id_or_member_epoch=1, member_id=joined.member_id)
        metrics = await scraped(client.node)
        assert "kafka_consumergroup_lag" not in metrics.names
        assert metrics.value("ottla_consumer_groups_omitted_offsets") == 1

    with_broker(test, tmp_path)
