"""Metrics of the consumer: Kafka's names, and their values."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.client.consuming import TP, batch, consumer, fill, poll_until, read
from tests.unit.client.scripted import ScriptedBroker

from ottla import KafkaConsumer, TopicPartition, aio
from ottla.client.consumer.fetch.fetch_metrics import GROUP as FETCHING
from ottla.client.consumer.metrics import COORDINATOR_GROUP
from ottla.client.consumer.metrics import GROUP as CONSUMER
from ottla.client.core.client_metrics import APP_INFO
from ottla.errors import CorruptBatchError
from ottla.metrics.metric import MetricName
from ottla.net.client.channel_metrics import LEFT_OUT as NO_SELECTOR
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.records.batch import LOG_OVERHEAD

ASYNC_CONSUMER = "the queues between the threads of Java's consumer; Ottla has none"
KAFKA: Mapping[str, tuple[str, ...]] = {
    CONSUMER: (
        *("time-between-poll-avg", "time-between-poll-max", "last-poll-seconds-ago", "poll-idle-ratio-avg"),
        *("commit-sync-time-ns-total", "committed-time-ns-total"),
        *("connection-close-rate", "connection-close-total", "connection-count", "connection-creation-rate"),
        *("connection-creation-total", "network-io-rate", "network-io-total", "outgoing-byte-rate"),
        *("outgoing-byte-total", "incoming-byte-rate", "incoming-byte-total", "request-rate", "request-total"),
        *("request-size-avg", "request-size-max", "response-rate", "response-total"),
        *("successful-authentication-rate", "successful-authentication-total", "failed-authentication-rate"),
        *("failed-authentication-total", "select-rate", "select-total", "io-wait-time-ns-avg", "io-ratio"),
        *("io-wait-time-ns-total", "io-wait-ratio", "io-time-ns-avg", "io-time-ns-total"),
        *("successful-reauthentication-rate", "successful-reauthentication-total", "failed-reauthentication-rate"),
        *("failed-reauthentication-total", "reauthentication-latency-avg", "reauthentication-latency-max"),
        "successful-authentication-no-reauth-total",
        *("time-between-network-thread-poll-avg", "time-between-network-thread-poll-max"),
        *("application-event-queue-size", "application-event-queue-time-avg", "application-event-queue-time-max"),
        *("application-event-queue-processing-time-avg", "application-event-queue-processing-time-max"),
        *("application-events-queue-processing-time-avg", "application-events-queue-processing-time-max"),
        *("background-event-queue-size", "background-event-queue-time-avg", "background-event-queue-time-max"),
        *("background-event-queue-processing-time-avg", "background-event-queue-processing-time-max"),
        *("unsent-requests-queue-size", "unsent-requests-queue-time-avg", "unsent-requests-queue-time-max"),
    ),
    COORDINATOR_GROUP: (
        *("commit-latency-avg", "commit-latency-max", "commit-rate", "commit-total", "assigned-partitions"),
        *("heartbeat-response-time-max", "heartbeat-rate", "heartbeat-total", "join-time-avg", "join-time-max"),
        *("join-rate", "join-total", "sync-time-avg", "sync-time-max", "sync-rate", "sync-total"),
        *("rebalance-latency-avg", "rebalance-latency-max", "rebalance-latency-total", "rebalance-total"),
        *("rebalance-rate-per-hour", "failed-rebalance-total", "failed-rebalance-rate-per-hour"),
        *("last-rebalance-seconds-ago", "last-heartbeat-seconds-ago"),
        *("partitions-revoked-latency-avg", "partitions-revoked-latency-max", "partitions-assigned-latency-avg"),
        *("partitions-assigned-latency-max", "partitions-lost-latency-avg", "partitions-lost-latency-max"),
    ),
    FETCHING: (
        *("bytes-consumed-rate", "bytes-consumed-total", "fetch-latency-avg", "fetch-latency-max", "fetch-rate"),
        *("fetch-size-avg", "fetch-size-max", "fetch-throttle-time-avg", "fetch-throttle-time-max", "fetch-total"),
        *("records-consumed-rate", "records-consumed-total", "records-lag-max", "records-lead-min"),
        "records-per-request-avg",
    ),
    f"{FETCHING} topic": (
        *("bytes-consumed-rate", "bytes-consumed-total", "fetch-size-avg", "fetch-size-max"),
        *("records-consumed-rate", "records-consumed-total", "records-per-request-avg"),
    ),
    f"{FETCHING} partition topic": (
        *("preferred-read-replica", "records-lag", "records-lag-avg", "records-lag-max"),
        *("records-lead", "records-lead-avg", "records-lead-min"),
    ),
    "consumer-node-metrics node-id": (
        *("incoming-byte-rate", "incoming-byte-total", "outgoing-byte-rate", "outgoing-byte-total", "request-rate"),
        *("request-total", "request-size-avg", "request-size-max", "request-latency-avg", "request-latency-max"),
        *("response-rate", "response-total"),
    ),
    APP_INFO: ("version", "commit-id", "start-time-ms"),
    "kafka-metrics-count": ("count",),
}
"""https://kafka.apache.org/documentation/#consumer_monitoring, by group and further tags."""
LEFT_OUT: Mapping[str, str] = {
    **NO_SELECTOR,
    **{
        name: ASYNC_CONSUMER
        for name in KAFKA[CONSUMER]
        if name.startswith(("time-between-network", "application-event", "background-event", "unsent-requests"))
    },
}


def grouped(metrics: Mapping[MetricName, Any]) -> dict[str, set[str]]:
    result: dict[str, set[str]] = {}
    for name in metrics:
        tags = sorted(set(name.tags) - {"client-id"})
        result.setdefault(" ".join([name.group, *tags]), set()).add(name.name)
    return result


def test_consumer_metrics_have_kafkas_names_except_those_left_out(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    with consumer(broker, "t", group_id="g") as c:
        read(c, 10)
        actual = grouped(c.metrics(raw=True))
    expected = {group: set(names) - set(LEFT_OUT) for group, names in KAFKA.items()}
    assert actual == expected
    assert not set(LEFT_OUT) & {name for names in actual.values() for name in names}


def value(c: KafkaConsumer, group: str, name: str) -> Any:
    return c.metrics()[group][name]


def test_response_of_which_a_part_is_not_returned_is_counted(broker: ScriptedBroker) -> None:
    broker.add_topic("t", 2)
    fill(broker, 10, partition=0)
    damaged = bytearray(batch([b"1"]))
    damaged[8:LOG_OVERHEAD] = bytes(4)

    def respond(request: FetchRequest) -> FetchResponse:
        response = broker._fetch(request)
        assert isinstance(response, FetchResponse)
        (_, second) = response.responses[0].partitions
        second.records = memoryview(damaged)
        return response

    broker.on(FetchRequest, respond)
    with consumer(broker) as c:
        c.assign([TP, TopicPartition("t", 1)])
        with pytest.raises(CorruptBatchError):
            read(c, 11)
        read(c, 10)
        assert value(c, FETCHING, "records-consumed-total") == 10
        assert value(c, FETCHING, "fetch-size-max") == len(broker.topics["t"][0][0])


def test_fetches_and_records_are_counted_for_client_topic_and_partition(broker: ScriptedBroker) -> None:
    broker.add_topic("t", 2)
    fill(broker, 30, partition=0)
    fill(broker, 10, partition=1)
    nbytes = sum(len(b) for log in broker.topics["t"] for b in log)
    with consumer(broker, max_poll_records=7) as c:
        c.assign([TP, TopicPartition("t", 1)])
        read(c, 40)
        poll_until(c, lambda: value(c, FETCHING, "records-consumed-total") == 40)
        for group in (FETCHING, f"{FETCHING}.t"):
            assert value(c, group, "bytes-consumed-total") == nbytes
            assert value(c, group, "records-consumed-total") == 40
            assert value(c, group, "records-per-request-avg") > 0
            assert value(c, group, "fetch-size-max") > 0
        assert value(c, FETCHING, "fetch-total") >= 1
        assert value(c, FETCHING, "fetch-latency-max") >= 0
        assert value(c, f"{FETCHING}.t.0", "records-lag") == 0
        assert value(c, f"{FETCHING}.t.0", "records-lag-max") == 0
        assert value(c, f"{FETCHING}.t.0", "preferred-read-replica") == -1
        assert value(c, "consumer-node-metrics.node-7", "request-latency-max") > 0
        c.unsubscribe()
        c.assign([TP])
        c.poll()
        assert f"{FETCHING}.t.1" not in c.metrics(), "metrics of unassigned partitions are removed"


def test_poll_batch_counts_records(broker: ScriptedBroker) -> None:
    fill(broker, 30)
    with consumer(broker) as c:
        c.assign([TP])
        rows = 0
        while rows < 30:
            rows += sum(columns.rows for columns in c.poll_batch(timeout_ms=1000).values())
        assert value(c, FETCHING, "records-consumed-total") == 30


def test_records_lag_is_the_distance_to_the_high_watermark(broker: ScriptedBroker) -> None:
    fill(broker, 30)
    with consumer(broker, max_poll_records=10) as c:
        c.assign([TP])
        read(c, 10)
        assert value(c, f"{FETCHING}.t.0", "records-lag") == 20
        assert c.current_lag(TP) == 20


def test_coordinator_metrics_count_heartbeats_rebalances_and_commits(broker: ScriptedBroker) -> None:
    with consumer(broker, "t", group_id="g", heartbeat_interval_ms=10) as c:
        poll_until(c, lambda: bool(c.assignment()))
        c.commit({TP: 1})
        c.committed(TP)
        poll_until(c, lambda: value(c, COORDINATOR_GROUP, "heartbeat-total") >= 3)
        metrics = c.metrics()[COORDINATOR_GROUP]
        totals = ("assigned-partitions", "join-total", "sync-total", "commit-total")
        assert [metrics[name] for name in totals] == [1, 1, 1, 1]
        assert (metrics["rebalance-total"], metrics["failed-rebalance-total"]) == (1, 0)
        assert metrics["rebalance-latency-max"] > 0
        assert metrics["commit-latency-max"] > 0
        assert metrics["last-heartbeat-seconds-ago"] == metrics["last-rebalance-seconds-ago"] == 0
        assert value(c, CONSUMER, "commit-sync-time-ns-total") > 0
        assert value(c, CONSUMER, "committed-time-ns-total") > 0
        broker.on(HeartbeatRequest, lambda _: HeartbeatResponse(error_code=27))
        poll_until(c, lambda: value(c, COORDINATOR_GROUP, "rebalance-total") == 2)
        assert value(c, COORDINATOR_GROUP, "rebalance-rate-per-hour") > 0


def test_poll_metrics_measure_the_time_between_polls(broker: ScriptedBroker) -> None:
    with consumer(broker) as c:
        assert value(c, CONSUMER, "last-poll-seconds-ago") == -1
        c.assign([TP])
        c.poll(timeout_ms=50)
        time.sleep(0.05)
        c.poll(timeout_ms=1)
        assert value(c, CONSUMER, "time-between-poll-max") >= 90
        assert 0 < value(c, CONSUMER, "poll-idle-ratio-avg") < 1
        assert value(c, CONSUMER, "last-poll-seconds-ago") == 0


def test_asyncio_consumer_of_the_consumer_protocol_has_the_coordinator_metrics(broker: ScriptedBroker) -> None:
    async def run() -> dict[str, set[str]]:
        async with aio.KafkaConsumer(
            "t", bootstrap_servers=broker.address, group_id="g", group_protocol="consumer"
        ) as c:
            while c.metrics()[COORDINATOR_GROUP]["heartbeat-total"] < 2:
                await c.poll(20)
            return grouped(c.metrics(raw=True))

    actual = asyncio.run(run())
    assert actual[COORDINATOR_GROUP] == set(KAFKA[COORDINATOR_GROUP])


@pytest.mark.option("metric.reporters")
def test_metric_reporter_is_called_and_closed(broker: ScriptedBroker) -> None:
    output: list[str] = []

    class Reporter:
        def metric_change(self, metric: Any) -> None:
            output.append(metric.metric_name.name)

        def close(self) -> None:
            output.append("closed")

    with consumer(broker, metric_reporters=[Reporter]):
        assert "records-lag-max" in output
    assert output[-1] == "closed"
