"""Carrying one change of an ISR through: asked of the controller until it is clear what became of it."""

from __future__ import annotations

import asyncio
import logging

from ottla.cluster.image.cluster_image import PartitionImage
from ottla.errors import (
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    KafkaError,
    NewLeaderElectedError,
    OperationNotAttemptedError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from ottla.model import TopicPartition
from ottla.replication.isr_state import LeaderState
from ottla.replication.listeners import IsrChanges

log = logging.getLogger("ottla.replication")

REFUSED = (IneligibleReplicaError, OperationNotAttemptedError)
"""It was not written, and what this leader goes by is right."""
OVERTAKEN = (
    FencedLeaderEpochError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    NewLeaderElectedError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
"""The controller goes by something newer, which is on its way here. Until it comes the proposal may hold."""
RETRY_SECONDS = 0.05


async def carry_through(
    changes: IsrChanges, tp: TopicPartition, leadership: LeaderState, isr: tuple[int, ...]
) -> PartitionImage | None:
    """The state that came of the proposal; None where there is none, or another has come meanwhile."""
    image, epochs = leadership.image, leadership.broker_epochs(isr)
    while leadership.proposed is isr:
        try:
            return await changes.propose(tp, image, isr, epochs)
        except REFUSED as error:
            log.info("%s: the in-sync replicas stay %s: %s", tp, image.isr, error.name)
            if leadership.proposed is isr:
                leadership.withdraw()
            return None
        except OVERTAKEN as error:
            log.info("%s: the in-sync replicas did not become %s: %s", tp, isr, error.name)
            return None
        except KafkaError as error:
            log.warning("%s: the in-sync replicas could not become %s, once more: %s", tp, isr, error)
            await asyncio.sleep(RETRY_SECONDS)
    return None
