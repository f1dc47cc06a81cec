import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, batch, with_broker

from ottla.broker.config.dynamic_config import DynamicBrokerConfig
from ottla.broker.quotas.client_quotas import CONSUMER_BYTES, MUTATIONS, PRODUCER_BYTES, REQUEST_PERCENT, Quotas
from ottla.broker.request_context import RequestContext
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker.broker_config import BrokerConfig
from ottla.errors import ThrottlingQuotaExceededError
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

EXACT, DEFAULT, ANY = 0, 1, 2


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def quotas(options: dict[str, dict[str, str]], clock: Clock | None = None) -> Quotas:
    actual = Quotas(DynamicBrokerConfig(BrokerConfig({}), 0), clock or Clock())
    actual.update(ClusterImage("c", configs=options))
    return actual


ALL = {
    "users/u/clients/c": {PRODUCER_BYTES: "1"},
    "users/u/clients/<default>": {PRODUCER_BYTES: "2"},
    "users/u": {PRODUCER_BYTES: "3"},
    "users/<default>/clients/c": {PRODUCER_BYTES: "4"},
    "users/<default>/clients/<default>": {PRODUCER_BYTES: "5"},
    "users/<default>": {PRODUCER_BYTES: "6"},
    "clients/c": {PRODUCER_BYTES: "7"},
    "clients/<default>": {PRODUCER_BYTES: "8"},
}


def test_most_specific_quota_applies_in_kafkas_order() -> None:
    remaining = dict(ALL)
    for path in ALL:
        bound = float(remaining[path][PRODUCER_BYTES])
        # over eleven windows of a second, twice the quota is throttled for as long again
        assert quotas(remaining).wait_seconds(PRODUCER_BYTES, "u", "c", bound * 20) == pytest.approx(10.0)
        del remaining[path]
    assert quotas(remaining).wait_seconds(PRODUCER_BYTES, "u", "c", 1e12) == 0
    assert not quotas(remaining).active


def test_default_quota_applies_to_each_client_id_or_user_separately() -> None:
    of_clients = quotas({"clients/<default>": {PRODUCER_BYTES: "100"}})
    assert of_clients.wait_seconds(PRODUCER_BYTES, "u", "a", 2000) > 0
    assert of_clients.wait_seconds(PRODUCER_BYTES, "u", "b", 900) == 0
    of_users = quotas({"users/<default>": {PRODUCER_BYTES: "100"}})
    assert of_users.wait_seconds(PRODUCER_BYTES, "u", "a", 900) == 0
    assert of_users.wait_seconds(PRODUCER_BYTES, "u", "b", 900) > 0
    assert of_users.wait_seconds(PRODUCER_BYTES, "v", "a", 900) == 0


def test_measured_usage_is_kept_when_a_quota_changes() -> None:
    actual = quotas({"clients/a": {PRODUCER_BYTES: "1000"}})
    assert actual.wait_seconds(PRODUCER_BYTES, "u", "a", 5000) == 0
    actual.update(ClusterImage("c", configs={"clients/a": {PRODUCER_BYTES: "100"}}))
    assert actual.wait_seconds(PRODUCER_BYTES, "u", "a", 1) > 0


def test_controller_mutations_are_rejected_while_the_token_bucket_is_overdrawn() -> None:
    clock = Clock()
    actual = quotas({"clients/a": {MUTATIONS: "1"}}, clock)
    actual.mutations("u", "a", strict=True).record(12)  # a bucket holds the tokens of eleven seconds
    over = actual.mutations("u", "a", strict=True)
    with pytest.raises(
        ThrottlingQuotaExceededError, match=r"controller_mutation_rate=1 of client 'a' is exceeded: retry in 1 s\."
    ):
        over.record(1)
    assert over.throttle() == pytest.approx(1.0)
    (usage,) = actual.usage()
    assert (usage.quota, usage.user, usage.client_id) == (MUTATIONS, "", "a")
    assert usage.per_second == pytest.approx(12 / 10)
    assert usage.throttle_ms == pytest.approx(1000)
    actual.mutations("u", "a", strict=False).record(1)
    clock.now += 2.0
    actual.mutations("u", "a", strict=True).record(1)


def test_quota_state_is_bounded_with_many_client_ids() -> None:
    actual = quotas({"clients/<default>": {PRODUCER_BYTES: "1", MUTATIONS: "1"}})
    for i in range(25_000):
        actual.wait_seconds(PRODUCER_BYTES, "u", str(i), 0)
        actual.mutations("u", str(i), strict=True)
    assert max(len(actual._shares), len(actual._buckets)) <= 10_000
    assert len(actual._measured) <= 10_000


async def set_quota(client: BrokerClient, key: str, value: float | None, **entity: str | None) -> int:
    parts = [EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in entity.items()]
    op = OpData(key=key, value=value or 0.0, remove=value is None)
    response = await client.request(AlterClientQuotasRequest(entries=[EntryData(entity=parts, ops=[op])]), 1)
    return response.entries[0].error_code


def test_quotas_are_altered_described_by_filters_and_survive_a_restart(tmp_path: Path) -> None:
    async def actual(client: BrokerClient, strict: bool = False, **expected: tuple[int, str | None]) -> list[Any]:
        components = [
            ComponentData(entity_type=kind.replace("_", "-"), match_type=how, match=name)
            for kind, (how, name) in expected.items()
        ]
        response = await client.request(DescribeClientQuotasRequest(components=components, strict=strict), 1)
        assert response.error_code == 0
        return [
            ({e.entity_type: e.entity_name for e in entry.entity}, {v.key: v.value for v in entry.values})
            for entry in response.entries or ()
        ]

    async def first(client: BrokerClient) -> None:
        assert await set_quota(client, PRODUCER_BYTES, 1024, user="al ice", client_id="app/1") == 0
        assert await set_quota(client, REQUEST_PERCENT, 12.5, user="al ice") == 0
        assert await set_quota(client, CONSUMER_BYTES, 10, client_id=None) == 0
        assert await set_quota(client, "connection_creation_rate", 7, ip="10.0.0.1") == 0

    async def second(client: BrokerClient) -> None:
        both = ({"user": "al ice", "client-id": "app/1"}, {PRODUCER_BYTES: 1024.0})
        user = ({"user": "al ice"}, {REQUEST_PERCENT: 12.5})
        assert await actual(client, user=(EXACT, "al ice")) == [user, both]
        assert await actual(client, strict=True, user=(EXACT, "al ice")) == [user]
        assert await actual(client, client_id=(DEFAULT, None)) == [({"client-id": None}, {CONSUMER_BYTES: 10.0})]
        assert await actual(client, user=(ANY, None), client_id=(ANY, None)) == [both]
        assert await actual(client, ip=(ANY, None)) == [({"ip": "10.0.0.1"}, {"connection_creation_rate": 7.0})]
        assert client.node._listeners.quotas.limits.rate_per_ip == {"10.0.0.1": 7.0}
        assert len(await actual(client)) == 4
        assert await set_quota(client, REQUEST_PERCENT, None, user="al ice") == 0
        assert await actual(client, user=(EXACT, "al ice")) == [both]

    with_broker(first, tmp_path)
    with_broker(second, tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "entity"),
    [
        ("no_such_rate", 1, {"user": "a"}),
        (PRODUCER_BYTES, 1.5, {"user": "a"}),
        (PRODUCER_BYTES, -1, {"user": "a"}),
        (PRODUCER_BYTES, 1, {"user": ""}),
        (PRODUCER_BYTES, 1, {"group": "a"}),
        (PRODUCER_BYTES, 1, {}),
        (PRODUCER_BYTES, 1, {"ip": "1.2.3.4"}),
        ("connection_creation_rate", 1, {"user": "a"}),
        (PRODUCER_BYTES, 1, {"ip": "1.2.3.4", "user": "a"}),
    ],
)
def test_invalid_quota_is_rejected(tmp_path: Path, key: str, value: float, entity: dict[str, str]) -> None:
    async def test(client: BrokerClient) -> None:
        assert await set_quota(client, key, value, **entity) == 42

    with_broker(test, tmp_path)


def test_produce_and_fetch_above_the_byte_rate_quotas_succeed_and_are_throttled(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await client.request(
            CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]), 7
        )
        await set_quota(client, PRODUCER_BYTES, 1000, client_id="tester")
        await set_quota(client, CONSUMER_BYTES, 2100, client_id=None)
        data = [PartitionProduceData(index=0, records=batch(*[b"x" * 1000] * 20))]
        produce = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)])
        produced = await client.request(produce, 9)
        assert produced.responses[0].partition_responses[0].error_code == 0
        assert produced.throttle_time_ms == pytest.approx(10_000, rel=0.2)
        assert client.throttled_seconds == produced.throttle_time_ms / 1000
        fetch = FetchRequest(
            max_bytes=10**6,
            topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=0, partition_max_bytes=10**6)])],
        )
        first = await client.request(fetch, 4)
        assert first.throttle_time_ms == 0
        client.client_id = "other"
        assert (await client.request(fetch, 4)).throttle_time_ms == 0
        client.client_id = "tester"
        again = await client.request(fetch, 4)
        assert again.throttle_time_ms == pytest.approx(10_000, rel=0.2)
        assert len(again.responses[0].partitions[0].records or b"") > 20_000

    with_broker(test, tmp_path)


def test_request_above_the_request_percentage_quota_is_throttled(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await set_quota(client, REQUEST_PERCENT, 1e-6, user="ANONYMOUS")
        assert (await client.request(MetadataRequest(topics=None), 12)).throttle_time_ms > 0

    with_broker(test, tmp_path)


def test_request_above_the_request_quota_is_throttled_at_most_for_a_window() -> None:
    actual = quotas({"clients/a": {REQUEST_PERCENT: "1", PRODUCER_BYTES: "1"}})
    assert actual.wait_seconds(REQUEST_PERCENT, "u", "a", 2000) == 1.0
    assert {usage.quota: usage.throttle_ms for usage in actual.usage()} == {REQUEST_PERCENT: 1000}
    assert actual.wait_seconds(PRODUCER_BYTES, "u", "a", 2000) == pytest.approx(1990)


def test_quotas_do_not_apply_to_other_brokers(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        for key in (CONSUMER_BYTES, REQUEST_PERCENT):
            await set_quota(client, key, 1, client_id=None)
        fetch = FetchRequest(replica_id=5, topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=0)])])
        assert (await client.request(fetch, 11)).throttle_time_ms > 0
        broker = client.as_broker()
        assert (await broker.request(fetch, 11)).throttle_time_ms == 0
        assert broker.throttled_seconds == 0

    with_broker(test, tmp_path)


def test_automatic_creation_of_topics_stops_at_the_mutation_quota(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await set_quota(client, MUTATIONS, 1, user="ANONYMOUS")
        topics = [MetadataRequestTopic(name=f"t{i}") for i in range(15)]
        response = await client.request(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 12)
        assert {topic.error_code for topic in response.topics} == {3}  # the client retries
        assert len(client.context.image.topics) == 12  # eleven tokens, and the one that overdraws them
        assert response.throttle_time_ms > 0

    with_broker(test, tmp_path, num_partitions=1)


def test_topic_changes_above_the_mutation_quota_are_rejected_in_newer_versions(tmp_path: Path) -> None:
    async def create(client: BrokerClient, name: str, partitions: int, version: int) -> tuple[int, int]:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        response = await client.request(CreateTopicsRequest(topics=[topic]), version)
        return response.topics[0].error_code, response.throttle_time_ms

    async def test(client: BrokerClient) -> None:
        await set_quota(client, MUTATIONS, 1, user="ANONYMOUS")
        assert (await create(client, "a", 15, 7))[0] == 0
        error, throttle_ms = await create(client, "b", 1, 7)
        assert (error, throttle_ms > 3000) == (89, True)
        deleted = await client.request(DeleteTopicsRequest(topic_names=["a"]), 5)
        assert deleted.responses[0].error_code == 89
        assert (await create(client, "c", 1, 5))[0] == 0

    with_broker(test, tmp_path)


def test_throttle_time_is_capped_at_the_fields_maximum(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        context = RequestContext(client.context, client.connection, 12, "c")
        assert context.throttle(5e6) == 2**31 - 1
        assert client.throttled_seconds == 5e6

    with_broker(test, tmp_path)


def test_time_of_a_coroutine_counts_against_the_request_percentage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def burn() -> None:
        end = time.perf_counter() + 0.15
        while time.perf_counter() < end:
            pass

    async def respond() -> HeartbeatResponse:
        await asyncio.sleep(0)
        burn()
        await asyncio.gather(later())
        return HeartbeatResponse()

    async def later() -> None:
        burn()

    async def test(client: BrokerClient) -> None:
        assert await set_quota(client, REQUEST_PERCENT, 1, client_id=None) == 0
        response = await client.request(HeartbeatRequest(group_id="g"), 3)
        assert response.throttle_time_ms > 0
        assert client.throttled_seconds > 0

    monkeypatch.setattr("ottla.broker.handlers.heartbeat.handle", lambda request, context: respond())
    with_broker(test, tmp_path)
