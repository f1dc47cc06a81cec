"""Logs the partitions whose state the controller has changed. Kafka's `StateChangeLogger`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from ottla.cluster.image.cluster_image import NO_LEADER, ClusterImage, PartitionImage
from ottla.model import TopicPartition

log = logging.getLogger("ottla.controller")

MAX_LINES: Final = 20
"""Maximum number of partitions of one change that are logged at INFO or higher; the others are logged at DEBUG."""


def log_state_changes(before: ClusterImage, states: Mapping[TopicPartition, PartitionImage], reason: str) -> None:
    """Log the partitions whose state has changed: first those without a leader, and in both groups internal topics
    last.
    """
    changed = [(tp, old, p) for tp, p in states.items() if (old := before.partition(tp)) is not None and old != p]
    changed.sort(key=lambda change: (change[2].leader != NO_LEADER, change[0].topic.startswith("__")))
    for number, (tp, old, p) in enumerate(changed):
        level, text = _described(old, p)
        if number >= MAX_LINES:
            level = logging.DEBUG
        log.log(level, "%s %s: epoch=%d isr=%s replicas=%s (%s)", tp, text, p.leader_epoch, *_lists(p), reason)
    if len(changed) > MAX_LINES and log.isEnabledFor(logging.INFO):
        leaderless = sum(p.leader == NO_LEADER for _, _, p in changed[MAX_LINES:])
        log.log(
            logging.ERROR if leaderless else logging.INFO,
            "Changed the state of %d more partitions, %d of them without a leader (%s); DEBUG lists them",
            len(changed) - MAX_LINES,
            leaderless,
            reason,
        )


def _described(old: PartitionImage, p: PartitionImage) -> tuple[int, str]:
    if p.leader == NO_LEADER:
        return logging.ERROR, "has no leader, because none of its in-sync replicas is alive"
    if p.leader == old.leader:
        return logging.INFO, f"is still led by broker {p.leader}"
    if p.leader not in old.isr:
        return logging.WARNING, f"is led by broker {p.leader}, which was not in sync: records may be lost"
    return logging.INFO, f"is led by broker {p.leader}"


def _lists(p: PartitionImage) -> tuple[list[int], list[int]]:
    return list(p.isr), list(p.replicas)
