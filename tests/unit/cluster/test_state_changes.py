"""The log of state changes: partitions that need attention come first."""

from __future__ import annotations

import logging
from dataclasses import replace
from uuid import UUID

import pytest

from ottla.cluster.controller.state_changes import MAX_LINES, log_state_changes
from ottla.cluster.image.cluster_image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from ottla.model import TopicPartition


def test_partitions_without_a_leader_are_logged_before_others_and_internal_topics_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = ("__consumer_offsets", "orders", "visits")
    before = PartitionImage(replicas=(0, 1), isr=(0, 1), leader=0, leader_epoch=0)
    topics = {name: TopicImage(name, UUID(int=1), (before,) * MAX_LINES) for name in names}
    after = PartitionImage(replicas=(0, 1), isr=(1,), leader=1, leader_epoch=1)
    states = {TopicPartition(name, i): after for name in names for i in range(MAX_LINES)}
    states[TopicPartition("visits", 3)] = replace(after, leader=NO_LEADER)
    with caplog.at_level(logging.INFO, "ottla.controller"):
        log_state_changes(ClusterImage("c", topics=topics), states, "brokers changed")
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].startswith("visits-3 ")
    assert caplog.records[0].levelno == logging.ERROR
    assert all(line.startswith("orders-") for line in lines[1:MAX_LINES])
    assert "of 40 more partitions, 0 of them without a leader" in lines[-1]
