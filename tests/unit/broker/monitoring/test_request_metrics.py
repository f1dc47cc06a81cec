"""Metrics of responses, quotas and share groups after requests to a broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.broker.broker_client import BrokerClient, batch, with_broker
from tests.unit.broker.monitoring.scraping import scraped
from tests.unit.broker.produce_and_fetch import create, fetch_request, produce
from tests.unit.broker.share_group_requests import fetch as share_fetch
from tests.unit.broker.share_group_requests import prepare

from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from ottla.records.conversion import down_converted

TOPICS = "kafka_server_brokertopicmetrics_"
REQUESTS = "kafka_network_requestmetrics_"
ACCEPT, RELEASE = 1, 2


def test_response_send_time_is_nonzero_for_a_slow_response_only(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t")
        for _ in range(3):
            await client.request(fetch_request(0), 12)
        client.connection.send_times.record(2.0)  # as a connection does when its socket is full for two seconds
        metrics = await scraped(client.node)
        request = "FetchConsumer"
        assert metrics.value(f"{REQUESTS}responsesendtimems_count", request=request) == 3
        assert metrics.value(f"{REQUESTS}responsesendtimems_sum", request=request) == 2000
        assert metrics.value(f"{REQUESTS}responsesendtimems", request=request, quantile="0.50") == 0
        assert metrics.value(f"{REQUESTS}responsesendtimems", request=request, quantile="0.99") > 1000
        assert metrics.value(f"{REQUESTS}responsequeuetimems_count", request=request) == 3
        assert metrics.value(f"{REQUESTS}responsequeuetimems_sum", request=request) == 0

    with_broker(test, tmp_path)


def test_converted_records_are_counted_as_temporary_memory(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t")
        await produce(client, bytearray(down_converted(batch(b"a", b"b"), 1)), version=2)
        response = await client.request(fetch_request(0), 3)
        converted = len(response.responses[0].partitions[0].records or b"")
        metrics = await scraped(client.node)
        name = f"{REQUESTS}temporarymemorybytes"
        assert metrics.value(f"{name}_count", request="Produce") == 1
        assert metrics.value(f"{name}_sum", request="Produce") >= len(batch(b"a", b"b"))
        assert metrics.value(f"{name}_count", request="Fetch") == 1
        assert metrics.value(f"{name}_sum", request="Fetch") == converted

    with_broker(test, tmp_path)


def test_throttle_time_is_reported_for_the_throttled_client_id(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t")
        entity = [EntityData(entity_type="client-id", entity_name=client.client_id)]
        operation = OpData(key="producer_byte_rate", value=10.0)
        await client.request(AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=[operation])]), 1)
        labels = {"resource": "Produce", "clientId": client.client_id}
        await produce(client, batch(b"x" * 200))
        metrics = await scraped(client.node)
        throttled = metrics.value("kafka_server_quota_throttle_time", **labels)
        assert throttled == pytest.approx(1000 * client.throttled_seconds, rel=0.01)
        assert throttled > 1000

    with_broker(test, tmp_path)


def test_throttled_topic_creation_is_reported_for_its_client_id(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        entity = [EntityData(entity_type="client-id", entity_name=client.client_id)]
        operation = OpData(key="controller_mutation_rate", value=0.001)
        await client.request(AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=[operation])]), 1)
        await create(client, "t")
        labels = {"resource": "ControllerMutation", "clientId": client.client_id}
        metrics = await scraped(client.node)
        assert metrics.value("kafka_server_quota_mutation_rate", **labels) > 0
        throttled = metrics.value("kafka_server_quota_throttle_time", **labels)
        assert throttled > 1000
        sum_ = metrics.value(f"{REQUESTS}throttletimems_sum", request="CreateTopics")
        assert sum_ == pytest.approx(throttled, rel=0.01)

    with_broker(test, tmp_path)


def test_share_fetches_acknowledgements_and_sessions_are_counted(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client, 5)
        await share_fetch(client, 0)
        await share_fetch(client, 1, acks=[(0, 2, ACCEPT), (3, 3, RELEASE)])
        await share_fetch(client, 2, acks=[(4, 99, ACCEPT)])  # beyond the end: rejected
        metrics = await scraped(client.node)
        counts = {
            name: metrics.value(f"{TOPICS}{name}_total", topic="t")
            for name in (
                "totalsharefetchrequests",
                "failedsharefetchrequests",
                "totalshareacknowledgementrequests",
                "failedshareacknowledgementrequests",
            )
        }
        assert list(counts.values()) == [3, 0, 2, 1]
        assert metrics.value(f"{TOPICS}bytesout_total", topic="t") > 0
        name = "kafka_server_sharegroupmetrics_recordacknowledgements_total"
        acknowledged = {kind: metrics.value(name, ackType=kind) for kind in ("Accept", "Release", "Reject", "Renew")}
        assert acknowledged == {"Accept": 3, "Release": 1, "Reject": 0, "Renew": 0}
        assert metrics.value("kafka_server_sharesessioncache_sharesessionscount") == 1
        assert metrics.value("kafka_server_sharesessioncache_sharepartitionscount") == 1
        assert metrics.value("kafka_server_sharesessioncache_sharesessionevictions_total") == 0

    with_broker(test, tmp_path)
