import gzip
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, with_broker

import ottla.broker.telemetry
from ottla.broker.telemetry import Telemetry, TelemetryClient, created_reporters, subscription_for
from ottla.errors import (
    ConfigurationError,
    InvalidRecordError,
    InvalidRequestError,
    KafkaError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
    UnsupportedVersionError,
)
from ottla.protocol.fields import ZERO_UUID
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest

CLIENT = TelemetryClient(uuid.UUID(int=7), "app", "librdkafka", "2.12.0", "10.0.0.1", "5000")
GZIP = 1


class Reporter:
    """A class for `metric.reporters`."""

    received: list[tuple[TelemetryClient, bytes]] = []

    def client_telemetry(self, client: TelemetryClient, payload: bytes) -> None:
        self.received.append((client, payload))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_matching_subscriptions_are_merged() -> None:
    subscriptions = {
        "a": {"metrics": "org.a.,org.b.", "interval.ms": "5000"},
        "b": {"metrics": "org.c.", "match": "client_id=app,client_software_name=lib.*", "interval.ms": "1000"},
        "c": {"metrics": "org.d.", "match": "client_id=ap", "interval.ms": "100"},
        "d": {"interval.ms": "100"},
    }
    subscription = subscription_for(CLIENT, subscriptions)
    assert (subscription.metrics, subscription.push_interval_ms) == (("org.a.", "org.b.", "org.c."), 1000)
    assert subscription_for(CLIENT, {"all": {"metrics": "*"}, **subscriptions}).metrics == ("",)
    assert subscription_for(CLIENT, {}).metrics == ()
    assert subscription_for(CLIENT, {}).subscription_id != subscription.subscription_id


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"subscription_id": 1}, UnknownSubscriptionIdError),
        ({"client": CLIENT._replace(client_instance_id=uuid.UUID(int=8))}, UnknownSubscriptionIdError),
        ({"metrics": bytes(1001), "compression": 0}, TelemetryTooLargeError),
        ({"metrics": gzip.compress(bytes(5000))}, InvalidRecordError),
        ({"metrics": b"no gzip"}, InvalidRecordError),
        ({"compression": 9}, UnsupportedCompressionTypeError),
    ],
)
def test_invalid_telemetry_push_is_rejected(changes: dict[str, Any], error: type[KafkaError]) -> None:
    telemetry = Telemetry((), 1000, Clock())
    subscription = telemetry.subscribe(CLIENT, {})
    push: dict[str, Any] = {
        "client": CLIENT,
        "subscription_id": subscription.subscription_id,
        "terminating": False,
        "compression": GZIP,
        "metrics": gzip.compress(b"metrics"),
    }
    with pytest.raises(error):
        telemetry.push(**{**push, **changes})
    telemetry2 = Telemetry((), 1000, Clock())
    telemetry2.subscribe(CLIENT, {})
    telemetry2.push(**push)


def test_telemetry_push_that_is_too_early_or_after_the_last_one_is_rejected() -> None:
    clock = Clock()
    telemetry = Telemetry((), 1000, clock)
    subscription = telemetry.subscribe(CLIENT, {})
    telemetry.push(CLIENT, subscription.subscription_id, False, 0, b"1")
    with pytest.raises(ThrottlingQuotaExceededError):
        telemetry.push(CLIENT, subscription.subscription_id, False, 0, b"2")
    clock.now += subscription.push_interval_ms / 1000
    telemetry.push(CLIENT, subscription.subscription_id, False, 0, b"2")
    telemetry.push(CLIENT, subscription.subscription_id, True, 0, b"last")
    with pytest.raises(InvalidRequestError):
        telemetry.push(CLIENT, subscription.subscription_id, True, 0, b"more")


def test_number_of_telemetry_clients_is_bounded() -> None:
    telemetry = Telemetry((), 1000, Clock())
    for i in range(1, 16_500):
        telemetry.subscribe(CLIENT._replace(client_instance_id=uuid.UUID(int=i)), {})
    assert len(telemetry._clients) == 16_384


def test_telemetry_client_that_pushes_is_not_dropped_for_one_that_only_subscribed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ottla.broker.telemetry, "MAX_CLIENTS", 2)
    telemetry = Telemetry((), 1000, Clock())
    idle, new = (CLIENT._replace(client_instance_id=uuid.UUID(int=i)) for i in (8, 9))
    subscription = telemetry.subscribe(CLIENT, {})
    telemetry.subscribe(idle, {})
    telemetry.push(CLIENT, subscription.subscription_id, False, 0, b"1")
    telemetry.subscribe(new, {})
    assert telemetry._clients.keys() == {CLIENT.client_instance_id, new.client_instance_id}


def test_missing_reporter_class_is_named_and_kafkas_own_are_ignored() -> None:
    with pytest.raises(ConfigurationError, match=r"metric.reporters.*no.such.Class"):
        created_reporters(("no.such.Class",), {})
    assert created_reporters(("org.apache.kafka.common.metrics.JmxReporter",), {}) == []


@pytest.mark.parametrize("reporters", ["", f"{__name__}.Reporter"])
def test_telemetry_apis_are_listed_only_with_a_telemetry_reporter(reporters: str, tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        response = await client.request(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)
        listed = {row.api_key for row in response.api_keys} & {71, 72}
        subscription = await client.request(GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID), 0)
        pushed = await client.request(PushTelemetryRequest(client_instance_id=uuid.UUID(int=9)), 0)
        if reporters:
            assert (listed, subscription.error_code) == ({71, 72}, 0)
        else:
            unsupported = UnsupportedVersionError.code
            assert (listed, subscription.error_code, pushed.error_code) == (set(), unsupported, unsupported)

    with_broker(test, tmp_path, metric_reporters=reporters)


def test_pushed_metrics_reach_the_reporter(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        config = AlterableConfig(name="metrics", config_operation=0, value="org.apache.kafka.")
        resource = AlterConfigsResource(resource_type=16, resource_name="all", configs=[config])
        await client.request(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        subscription = await client.request(GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID), 0)
        assert subscription.client_instance_id != ZERO_UUID
        assert (subscription.requested_metrics, subscription.accepted_compression_types) == (
            ["org.apache.kafka."],
            [4, 3, 1, 2],
        )
        push = PushTelemetryRequest(
            client_instance_id=subscription.client_instance_id,
            subscription_id=subscription.subscription_id,
            compression_type=GZIP,
            metrics=gzip.compress(b"otlp"),
        )
        assert (await client.request(push, 0)).error_code == 0
        (actual,) = client.context.telemetry._receivers[0].__self__.received  # type: ignore[attr-defined]
        assert (actual[0].client_instance_id, actual[0].client_id, actual[1]) == (
            subscription.client_instance_id,
            "tester",
            b"otlp",
        )
        push.client_instance_id = ZERO_UUID
        assert (await client.request(push, 0)).error_code == InvalidRequestError.code

    with_broker(test, tmp_path, metric_reporters=f"{__name__}.Reporter")
