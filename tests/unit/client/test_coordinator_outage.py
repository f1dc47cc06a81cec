"""Outage of the coordinator: what clients log and when, and what their timeout errors name."""

from __future__ import annotations

import logging

import pytest

from ottla import Broker, KafkaAdminClient, KafkaConsumer, NewTopic, TopicPartition
from ottla.client.admin import driver
from ottla.client.core import coordinator
from ottla.errors import KafkaTimeoutError

CONFIGS = {"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 1}
REASON = r"The coordinator is not available: __consumer_offsets-0 has no leader; start one of its brokers: \d\."


def test_unavailable_coordinator_is_logged_at_once_and_named_in_timeouts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.client")
    for module in (driver, coordinator):
        monkeypatch.setattr(module, "SLOW_SECONDS", 0.02)
    partition = TopicPartition("t", 0)
    with (
        Broker(CONFIGS, brokers=2) as cluster,
        KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
        KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id="g") as consumer,
    ):
        admin.create_topics([NewTopic("t", 1, 2)])
        consumer.assign([partition])
        consumer.commit({partition: 0})
        coordinator_id = admin.describe_topics(["__consumer_offsets"])["__consumer_offsets"].partitions[0].leader
        cluster.kill_broker(coordinator_id)
        caplog.clear()
        with pytest.raises(KafkaTimeoutError, match=rf"^offsets of group g were not committed in time \({REASON}\)$"):
            consumer.commit({partition: 0}, timeout_ms=400)
        with pytest.raises(KafkaTimeoutError, match=REASON):
            consumer.position(partition, timeout_ms=200)
        with pytest.raises(KafkaTimeoutError, match=REASON):
            admin.list_consumer_group_offsets("g", timeout_ms=400)
        assert caplog.text.count("of group g; calls that need it are retried until they time out: The coord") == 1
        assert "retrying for at most 0.4 s in all" in caplog.text
        assert caplog.text.count("ends it earlier: g: The coordinator is not available") == 1
        cluster.start_broker(coordinator_id)
        assert consumer.committed(partition) == 0
        assert "Found the coordinator of group g after" in caplog.text
