"""Updates of the ISR, which only the controller writes (KIP-497): how the leader submits one until it is settled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from ottla import errors
from ottla.cluster.image.cluster_image import PartitionImage
from ottla.model import TopicPartition
from ottla.replication.isr_state import LeaderState

log = logging.getLogger("ottla.replication")

RETRY_SECONDS = 0.05
"""The delay before an update is sent again that the controller could not apply, e.g. without its metadata store."""
REJECTED = (errors.IneligibleReplicaError, errors.OperationNotAttemptedError)
"""The update was not written, and the leader's state is current."""
SUPERSEDED = (
    errors.FencedLeaderEpochError,
    errors.InvalidRequestError,
    errors.InvalidUpdateVersionError,
    errors.NewLeaderElectedError,
    errors.UnknownTopicIdError,
    errors.UnknownTopicOrPartitionError,
)
"""The controller has a newer state, which is on its way here. Until it arrives the update may have been written."""


class IsrSubmitter(Protocol):
    """The leader's way to the controller: `AlterPartitionManager`."""

    async def submit(
        self, tp: TopicPartition, image: PartitionImage, isr: tuple[int, ...], epochs: Mapping[int, int]
    ) -> PartitionImage:
        """Request this ISR in place of that of `image`. Return the state that the controller has written.

        `epochs`: the broker epochs in which the ISR's members have fetched.

        Raises the controller's error: FencedLeaderEpochError, InvalidUpdateVersionError, IneligibleReplicaError etc.
        """


async def submit_until_settled(
    updates: IsrSubmitter, tp: TopicPartition, leader_state: LeaderState, isr: tuple[int, ...]
) -> PartitionImage | None:
    """Submit an update until it is written or rejected.

    Return the new state, or None if the update was rejected, or superseded by a newer state.
    """
    image, epochs = leader_state.image, leader_state.broker_epochs(isr)
    while leader_state.pending_isr is isr:
        try:
            return await updates.submit(tp, image, isr, epochs)
        except REJECTED as error:
            log.info("ISR of %s stays %s; the controller rejected isr=%s: %s", tp, image.isr, isr, error.name)
            if leader_state.pending_isr is isr:
                leader_state.clear_pending()
            return None
        except SUPERSEDED as error:
            log.info("Update of %s to isr=%s is superseded: %s", tp, isr, error.name)
            return None
        except errors.KafkaError as error:
            log.warning("Cannot update %s to isr=%s; retrying: %s", tp, isr, error)
            await asyncio.sleep(RETRY_SECONDS)
    return None
