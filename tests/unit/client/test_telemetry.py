"""Client telemetry (KIP-714): subscriptions, pushes and errors."""

from __future__ import annotations

import gzip
import time
import uuid
from typing import Any

import pytest
from tests.unit.client.scripted import ScriptedBroker
from tests.unit.metrics.protobuf import labels, metrics

from ottla import KafkaConsumer, KafkaProducer
from ottla.clock import ManualClock
from ottla.errors import IllegalStateError, UnsupportedVersionError
from ottla.protocol.fields import ZERO_UUID
from ottla.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

GZIP = 1
SENT = "org.apache.kafka.producer.record.send.total"
ID = uuid.UUID(int=7)


def subscriptions_response(
    *prefixes: str, subscription: int = 5, codecs: tuple[int, ...] = ()
) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=ID,
        subscription_id=subscription,
        accepted_compression_types=list(codecs),
        push_interval_ms=10_000,
        telemetry_max_bytes=1000,
        delta_temporality=True,
        requested_metrics=list(prefixes),
    )


def producer(broker: ScriptedBroker, **options: Any) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=broker.address, linger_ms=0, **options)


def pushes(broker: ScriptedBroker, count: int) -> list[PushTelemetryRequest]:
    broker.wait_for(lambda: len(broker.requests_of(PushTelemetryRequest)) >= count)
    return broker.requests_of(PushTelemetryRequest)


def pass_time(p: KafkaProducer, clock: ManualClock, seconds: float) -> None:
    """Advance the clock once metadata and telemetry wait for it."""
    end = time.monotonic() + 10
    while len(clock.waited_for) < 2:
        assert time.monotonic() < end, "no task waits for the clock"
        p._io.run(_nothing())
    clock.advance(seconds * 1000)


async def _nothing() -> None:
    pass


@pytest.mark.option("enable.metrics.push")
def test_subscribed_metrics_are_pushed_at_the_interval_and_at_close(broker: ScriptedBroker) -> None:
    clock = ManualClock()
    broker.on(GetTelemetrySubscriptionsRequest, lambda _: subscriptions_response(SENT, codecs=(GZIP, 0)))
    with producer(broker, clock=clock) as p:
        p.send("t", b"v").get(10)
        assert p.client_instance_id(10) == ID
        pass_time(p, clock, 15)
        (first,) = pushes(broker, 1)
        p.send("t", b"v").get(10)
        p.send("t", b"v").get(10)
        pass_time(p, clock, 10)
        pushes(broker, 2)
        p.send("t", b"v").get(10)
    output = pushes(broker, 3)
    assert [metrics(gzip.decompress(push.metrics)) for push in output] == [
        {SENT: ("sum 1", float(count), {})} for count in (1, 2, 1)
    ]
    assert [(push.subscription_id, push.client_instance_id) for push in output] == [(5, ID)] * 3
    assert [push.terminating for push in output] == [False, False, True]
    assert first.compression_type == GZIP
    assert [r.client_instance_id for r in broker.requests_of(GetTelemetrySubscriptionsRequest)] == [ZERO_UUID]


def test_empty_subscription_pushes_nothing_and_is_refreshed(broker: ScriptedBroker) -> None:
    clock = ManualClock()
    broker.on(GetTelemetrySubscriptionsRequest, lambda _: subscriptions_response())
    with producer(broker, clock=clock) as p:
        p.send("t", b"v").get(10)
        pass_time(p, clock, 10)
        broker.wait_for(lambda: len(broker.requests_of(GetTelemetrySubscriptionsRequest)) == 2)
        assert broker.requests_of(GetTelemetrySubscriptionsRequest)[1].client_instance_id == ID
    assert broker.requests_of(PushTelemetryRequest) == []


def test_unknown_subscription_id_makes_the_client_request_a_new_one(broker: ScriptedBroker) -> None:
    clock = ManualClock()
    broker.on(GetTelemetrySubscriptionsRequest, lambda _: subscriptions_response(SENT))
    broker.on(GetTelemetrySubscriptionsRequest, lambda _: subscriptions_response("", subscription=6))
    broker.on(PushTelemetryRequest, lambda _: PushTelemetryResponse(error_code=117))
    with producer(broker, clock=clock) as p:
        p.send("t", b"v").get(10)
        pass_time(p, clock, 15)
        broker.wait_for(lambda: len(broker.requests_of(GetTelemetrySubscriptionsRequest)) == 2)
        pass_time(p, clock, 15)
        last = pushes(broker, 2)[-1]
        assert last.subscription_id == 6
        assert len(metrics(last.metrics)) > 40, "an empty prefix matches all names"


def test_push_error_stops_telemetry_unless_the_push_was_too_large(
    broker: ScriptedBroker,
) -> None:
    clock = ManualClock()
    broker.on(GetTelemetrySubscriptionsRequest, lambda _: subscriptions_response(SENT))
    broker.on(PushTelemetryRequest, lambda _: PushTelemetryResponse(error_code=118))
    broker.on(PushTelemetryRequest, lambda _: PushTelemetryResponse(error_code=42))
    with producer(broker, clock=clock) as p:
        p.send("t", b"v").get(10)
        pass_time(p, clock, 15)
        pushes(broker, 1)
        pass_time(p, clock, 10)
        pushes(broker, 2)
        while p._core.telemetry is None or p._core.telemetry._subscription is not None:
            p._io.run(_nothing())
        with pytest.raises(UnsupportedVersionError):
            p.client_instance_id(10)
        assert p.send("t", b"v").get(10).offset == 1
    assert len(broker.requests_of(PushTelemetryRequest)) == 2


def test_cluster_without_telemetry_receives_no_requests() -> None:
    with ScriptedBroker(max_versions={"GetTelemetrySubscriptions": -1}) as broker:
        broker.add_topic("t")
        with producer(broker) as p:
            p.send("t", b"v").get(10)
            with pytest.raises(UnsupportedVersionError):
                p.client_instance_id(10)
        assert broker.requests_of(GetTelemetrySubscriptionsRequest) == []


def test_disabled_telemetry_sends_no_request(broker: ScriptedBroker) -> None:
    with producer(broker, enable_metrics_push=False) as p:
        p.send("t", b"v").get(10)
        with pytest.raises(IllegalStateError, match=r"enable\.metrics\.push"):
            p.client_instance_id()
    assert broker.requests_of(GetTelemetrySubscriptionsRequest) == []


@pytest.mark.option("enable.metrics.push")
def test_consumer_pushes_metrics_with_its_group_id(broker: ScriptedBroker) -> None:
    broker.on(
        GetTelemetrySubscriptionsRequest, lambda _: subscriptions_response("org.apache.kafka.consumer.connection")
    )
    with KafkaConsumer("t", bootstrap_servers=broker.address, group_id="g", client_rack="r") as consumer:
        assert consumer.client_instance_id(10_000) == ID
    (push,) = pushes(broker, 1)
    assert push.terminating
    assert "org.apache.kafka.consumer.connection.count" in metrics(push.metrics)
    assert labels(push.metrics) == {"group_id": "g", "client_rack": "r"}
