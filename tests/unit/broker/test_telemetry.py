import gzip
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.asking import Asker, with_broker

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
    """A class as `metric.reporters` names it."""

    received: list[tuple[TelemetryClient, bytes]] = []

    def client_telemetry(self, client: TelemetryClient, payload: bytes) -> None:
        self.received.append((client, payload))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_all_matching_subscriptions_are_put_together() -> None:
    subscriptions = {
        "a": {"metrics": "org.a.,org.b.", "interval.ms": "5000"},
        "b": {"metrics": "org.c.", "match": "client_id=app,client_software_name=lib.*", "interval.ms": "1000"},
        "c": {"metrics": "org.d.", "match": "client_id=ap", "interval.ms": "100"},
        "d": {"interval.ms": "100"},
    }
    request = subscription_for(CLIENT, subscriptions)
    assert (request.metrics, request.push_interval_ms) == (("org.a.", "org.b.", "org.c."), 1000)
    assert subscription_for(CLIENT, {"all": {"metrics": "*"}, **subscriptions}).metrics == ("",)
    assert subscription_for(CLIENT, {}).metrics == ()
    assert subscription_for(CLIENT, {}).subscription_id != request.subscription_id


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
def test_metrics_that_were_not_asked_for_so_are_refused(changes: dict[str, Any], error: type[KafkaError]) -> None:
    telemetry = Telemetry((), 1000, Clock())
    request = telemetry.subscribe(CLIENT, {})
    push: dict[str, Any] = {
        "client": CLIENT,
        "subscription_id": request.subscription_id,
        "terminating": False,
        "compression": GZIP,
        "metrics": gzip.compress(b"metrics"),
    }
    with pytest.raises(error):
        telemetry.push(**{**push, **changes})
    telemetry2 = Telemetry((), 1000, Clock())
    telemetry2.subscribe(CLIENT, {})
    telemetry2.push(**push)


def test_a_client_that_pushes_too_often_or_after_its_end_is_refused() -> None:
    clock = Clock()
    telemetry = Telemetry((), 1000, clock)
    request = telemetry.subscribe(CLIENT, {})
    telemetry.push(CLIENT, request.subscription_id, False, 0, b"1")
    with pytest.raises(ThrottlingQuotaExceededError):
        telemetry.push(CLIENT, request.subscription_id, False, 0, b"2")
    clock.now += request.push_interval_ms / 1000
    telemetry.push(CLIENT, request.subscription_id, False, 0, b"2")
    telemetry.push(CLIENT, request.subscription_id, True, 0, b"last")
    with pytest.raises(InvalidRequestError):
        telemetry.push(CLIENT, request.subscription_id, True, 0, b"more")


def test_only_so_many_clients_are_remembered() -> None:
    telemetry = Telemetry((), 1000, Clock())
    for i in range(1, 16_500):
        telemetry.subscribe(CLIENT._replace(client_instance_id=uuid.UUID(int=i)), {})
    assert len(telemetry._clients) == 16_384


def test_a_reporter_that_is_not_there_is_named_and_kafkas_own_are_left_out() -> None:
    with pytest.raises(ConfigurationError, match=r"metric.reporters.*no.such.Class"):
        created_reporters(("no.such.Class",), {})
    assert created_reporters(("org.apache.kafka.common.metrics.JmxReporter",), {}) == []


@pytest.mark.parametrize("reporters", ["", f"{__name__}.Reporter"])
def test_telemetry_apis_are_listed_only_with_a_receiver(reporters: str, tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        response = await client.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)
        listed = {row.api_key for row in response.api_keys} & {71, 72}
        request = await client.ask(GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID), 0)
        pushed = await client.ask(PushTelemetryRequest(client_instance_id=uuid.UUID(int=9)), 0)
        if reporters:
            assert (listed, request.error_code) == ({71, 72}, 0)
        else:
            refused = UnsupportedVersionError.code
            assert (listed, request.error_code, pushed.error_code) == (set(), refused, refused)

    with_broker(test, tmp_path, metric_reporters=reporters)


def test_metrics_reach_the_receivers_through_the_broker(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        one = AlterableConfig(name="metrics", config_operation=0, value="org.apache.kafka.")
        resource = AlterConfigsResource(resource_type=16, resource_name="all", configs=[one])
        await client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        request = await client.ask(GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID), 0)
        assert request.client_instance_id != ZERO_UUID
        assert (request.requested_metrics, request.accepted_compression_types) == (["org.apache.kafka."], [4, 3, 1, 2])
        push = PushTelemetryRequest(
            client_instance_id=request.client_instance_id,
            subscription_id=request.subscription_id,
            compression_type=GZIP,
            metrics=gzip.compress(b"otlp"),
        )
        assert (await client.ask(push, 0)).error_code == 0
        (actual,) = client.context.telemetry._receivers[0].__self__.received  # type: ignore[attr-defined]
        assert (actual[0].client_instance_id, actual[0].client_id, actual[1]) == (
            request.client_instance_id,
            "tester",
            b"otlp",
        )
        push.client_instance_id = ZERO_UUID
        assert (await client.ask(push, 0)).error_code == InvalidRequestError.code

    with_broker(test, tmp_path, metric_reporters=f"{__name__}.Reporter")
