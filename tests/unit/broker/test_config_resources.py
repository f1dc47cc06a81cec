import logging
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, with_broker
from tests.unit.broker.config_requests import (
    APPEND,
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    TOPIC,
    alter,
)

from ottla.broker.config.config_entries import broker_entries, text_of
from ottla.broker.config.dynamic_config import DynamicBrokerConfig
from ottla.config.broker.broker_config import BrokerConfig
from ottla.errors import InvalidConfigError, InvalidRequestError
from ottla.model import TopicPartition
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest


async def described(client: BrokerClient, kind: int, name: str, key: str) -> DescribeConfigsResult:
    requested = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[key])
    request = DescribeConfigsRequest(resources=[requested], include_synonyms=True)
    (result,) = (await client.request(request, 4)).results
    return result


async def describe(client: BrokerClient, kind: int, name: str, key: str) -> tuple[Any, ...]:
    result = await described(client, kind, name, key)
    if result.error_code or not result.configs:
        return (result.error_code,)
    (actual,) = result.configs
    return actual.value, actual.config_source, actual.read_only, [(s.value, s.source) for s in actual.synonyms]


async def synonyms(client: BrokerClient, kind: int, name: str, key: str) -> list[tuple[str, str | None, int]]:
    (actual,) = (await described(client, kind, name, key)).configs
    return [(s.name, s.value, s.source) for s in actual.synonyms]


def test_configs_of_another_broker_are_neither_described_nor_altered(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        for other in ("1", "one"):
            assert await describe(client, BROKER, other, "log.retention.ms") == (InvalidRequestError.code,)
            assert await alter(client, BROKER, other, "log.retention.ms", "7000") == InvalidRequestError.code

    with_broker(test, tmp_path)


def test_dynamic_broker_config_applies_to_logs_and_survives_a_restart(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        await client.request(CreateTopicsRequest(topics=[topic]), 7)
        assert await alter(client, BROKER, "", "log.retention.ms", "7000") == 0
        assert await alter(client, BROKER, "0", "log.segment.bytes", "100000") == 0
        log = client.context.partitions.get(TopicPartition("t", 0)).log  # type: ignore[union-attr]
        assert (log.config.retention_ms, log.config.segment_bytes) == (7000, 100000)

    async def after_restart(client: BrokerClient) -> None:
        log = client.context.partitions.get(TopicPartition("t", 0)).log  # type: ignore[union-attr]
        assert (log.config.retention_ms, log.config.segment_bytes) == (7000, 100000)
        assert await describe(client, BROKER, "", "log.retention.ms") == ("7000", 3, False, [("7000", 3)])
        assert await describe(client, BROKER, "0", "log.retention.ms") == ("7000", 3, False, [("7000", 3)])
        assert await alter(client, BROKER, "0", "log.segment.bytes", None, DELETE) == 0
        assert log.config.segment_bytes == 1 << 30

    with_broker(test, tmp_path)
    with_broker(after_restart, tmp_path)


def test_configs_of_all_brokers_are_read_again_for_those_of_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def test(client: BrokerClient) -> None:
        refreshed: list[str] = []

        async def refresh(paths: list[str]) -> None:
            refreshed.extend(paths)

        monkeypatch.setattr(BrokerConfig, "in_cluster", True)
        monkeypatch.setattr(client.context.config_store, "refresh", refresh)
        for name in ("0", ""):
            await describe(client, BROKER, name, "log.retention.ms")
        assert refreshed == ["brokers/0", "brokers/<default>", "brokers/<default>"]

    with_broker(test, tmp_path)


def test_synonyms_of_a_topic_config_include_the_inherited_broker_configs(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        await client.request(CreateTopicsRequest(topics=[topic]), 7)
        await alter(client, TOPIC, "t", "max.message.bytes", "5000")
        await alter(client, BROKER, "", "message.max.bytes", "7000")
        names = [
            ("max.message.bytes", "5000", 1),
            ("message.max.bytes", "7000", 3),
            ("message.max.bytes", "1048588", 5),
        ]
        assert await synonyms(client, TOPIC, "t", "max.message.bytes") == names
        assert await describe(client, TOPIC, "t", "retention.ms") == ("7200000", 4, False, [("2", 4)])
        assert await synonyms(client, TOPIC, "t", "segment.ms") == []

    with_broker(test, tmp_path, log_retention_hours=2)


def test_synonyms_of_a_group_config_include_the_broker_config(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await alter(client, GROUP, "g", "consumer.session.timeout.ms", "50000")
        names = [("consumer.session.timeout.ms", "50000", 8), ("group.consumer.session.timeout.ms", "45000", 5)]
        assert await synonyms(client, GROUP, "g", "consumer.session.timeout.ms") == names

    with_broker(test, tmp_path)


def test_unknown_broker_config_is_stored_and_its_value_hidden(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(client: BrokerClient) -> None:
        assert await alter(client, BROKER, "0", "plugin.password", "secret") == 0
        assert "plugin.password of broker 0 has no effect" in caplog.text
        assert await describe(client, BROKER, "0", "plugin.password") == (None, 2, False, [(None, 2)])
        assert await describe(client, BROKER, "", "plugin.password") == (0,)
        assert await alter(client, BROKER, "0", "plugin.password", None, DELETE) == 0
        assert await describe(client, BROKER, "0", "plugin.password") == (0,)

    with_broker(test, tmp_path)


def test_per_broker_config_overrides_cluster_default_and_static_config(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await alter(client, BROKER, "", "message.max.bytes", "2000")
        await alter(client, BROKER, "0", "message.max.bytes", "3000")
        values = [("3000", 2), ("2000", 3), ("1000", 4), ("1048588", 5)]
        assert await describe(client, BROKER, "0", "message.max.bytes") == ("3000", 2, False, values)
        assert client.context.config.message_max_bytes == 3000

    with_broker(test, tmp_path, message_max_bytes="1000")


@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "error"),
    [
        (BROKER, "0", "log.dirs", "/x", InvalidRequestError),
        (BROKER, "7", "message.max.bytes", "1", InvalidRequestError),
        (BROKER, "0", "message.max.bytes", "many", InvalidConfigError),
        (BROKER_LOGGER, "0", "ottla.broker", "LOUD", InvalidConfigError),
        (BROKER_LOGGER, "0", "no.such.logger", "INFO", InvalidConfigError),
        (BROKER_LOGGER, "5", "ottla.broker", "INFO", InvalidRequestError),
        (CLIENT_METRICS, "m", "no.such.option", "1", InvalidRequestError),
        (CLIENT_METRICS, "m", "interval.ms", "1", InvalidConfigError),
        (CLIENT_METRICS, "m", "match", "client_id=[", InvalidConfigError),
        (CLIENT_METRICS, "m", "match", "colour=red", InvalidConfigError),
        (GROUP, "", "consumer.session.timeout.ms", "50000", InvalidRequestError),
        (GROUP, "g", "no.such.option", "1", InvalidConfigError),
        (GROUP, "g", "consumer.session.timeout.ms", "44999", InvalidConfigError),
        (GROUP, "g", "consumer.heartbeat.interval.ms", "15001", InvalidConfigError),
        (GROUP, "g", "share.session.timeout.ms", "60001", InvalidConfigError),
        (GROUP, "g", "share.record.lock.duration.ms", "14999", InvalidConfigError),
        (GROUP, "g", "share.delivery.count.limit", "1", InvalidConfigError),
        (GROUP, "g", "share.delivery.count.limit", "11", InvalidConfigError),
        (GROUP, "g", "share.partition.max.record.locks", "99", InvalidConfigError),
        (GROUP, "g", "share.partition.max.record.locks", "4001", InvalidConfigError),
        (GROUP, "g", "consumer.assignment.interval.ms", "15001", InvalidConfigError),
        (GROUP, "g", "share.assignment.interval.ms", "-1", InvalidConfigError),
        (GROUP, "g", "consumer.assignor.offload.enable", "true", InvalidConfigError),
        (GROUP, "g", "share.renew.acknowledge.enable", "maybe", InvalidConfigError),
        (GROUP, "g", "share.auto.offset.reset", "none", InvalidConfigError),
        (GROUP, "g", "share.auto.offset.reset", "by_duration", InvalidConfigError),
        (GROUP, "g", "share.auto.offset.reset", "by_duration:-PT1H", InvalidConfigError),
        (99, "m", "x", "1", InvalidRequestError),
    ],
)
def test_invalid_config_change_is_rejected(
    tmp_path: Path, kind: int, name: str, key: str, value: str, error: type[Any]
) -> None:
    async def test(client: BrokerClient) -> None:
        assert await alter(client, kind, name, key, value) == error.code

    with_broker(test, tmp_path)


def test_logger_levels_are_set_and_described(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        logging.getLogger("ottla.broker")
        assert await alter(client, BROKER_LOGGER, "0", "ottla.broker", "DEBUG") == 0
        assert logging.getLogger("ottla.broker").level == logging.DEBUG
        assert (await describe(client, BROKER_LOGGER, "0", "ottla.broker"))[:2] == ("DEBUG", 6)
        assert await alter(client, BROKER_LOGGER, "0", "ottla.broker", None, DELETE) == 0
        assert logging.getLogger("ottla.broker").level == logging.NOTSET

    with_broker(test, tmp_path)


def test_client_metrics_subscriptions_are_stored_and_listed(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        assert await alter(client, CLIENT_METRICS, "basic", "metrics", "org.apache.kafka.producer.") == 0
        assert await alter(client, CLIENT_METRICS, "basic", "metrics", "org.apache.kafka.consumer.", APPEND) == 0
        both = "org.apache.kafka.producer.,org.apache.kafka.consumer."
        assert (await describe(client, CLIENT_METRICS, "basic", "metrics"))[:2] == (both, 7)
        assert (await describe(client, CLIENT_METRICS, "basic", "interval.ms"))[:2] == ("300000", 5)
        old = await client.request(ListConfigResourcesRequest(), 0)
        assert [r.resource_name for r in old.config_resources] == ["basic"]
        some = await client.request(ListConfigResourcesRequest(resource_types=[BROKER, CLIENT_METRICS]), 1)
        actual = [(r.resource_type, r.resource_name) for r in some.config_resources]
        assert actual == [(BROKER, "0"), (CLIENT_METRICS, "basic")]
        assert (await client.request(ListConfigResourcesRequest(resource_types=[99]), 1)).error_code == 35

    with_broker(test, tmp_path)


def test_group_configs_are_altered_described_and_listed(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        session = "consumer.session.timeout.ms"
        assert await describe(client, GROUP, "g", session) == ("45000", 5, False, [("45000", 5)])
        assert await alter(client, GROUP, "g", session, "50000") == 0
        assert await describe(client, GROUP, "g", session) == ("50000", 8, False, [("50000", 8), ("45000", 5)])
        listed = await client.request(ListConfigResourcesRequest(resource_types=[GROUP]), 1)
        assert [r.resource_name for r in listed.config_resources] == ["g"]
        assert client.context.groups.groups.consumer.configs.session_timeout_ms("g") == 50_000

    with_broker(test, tmp_path)


def test_values_are_described_as_in_a_properties_file() -> None:
    values = {
        "ottla.http.listener": "https://[::1]:9644",
        "super.users": "User:CN=ann,O=x;User:bob",
        "log.dirs": "/a,/b",
    }
    dynamic_config = DynamicBrokerConfig(BrokerConfig.from_kafka(values), 0)
    texts = {entry.name: entry.value for entry in broker_entries(dynamic_config)}
    assert {name: texts[name] for name in values} == values
    assert (
        text_of(BrokerConfig.from_kafka({"ottla.http.listener": "http://127.0.0.1:1"}).ottla_http_listener)
        == "127.0.0.1:1"
    )
