"""Submission of ISR updates by the leader (KIP-497): repeats an update until it is written, rejected or superseded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from ottla import errors
from ottla.cluster.image.cluster_image import PartitionImage
from ottla.logs import limit_repeated_errors
from ottla.model import TopicPartition
from ottla.replication.isr_state import LeaderState

log = logging.getLogger("ottla.replication")
failures_log = logging.getLogger("ottla.replication.isr")
limit_repeated_errors(failures_log)  # while the store is unreachable, every retry fails in the same way

RETRY_SECONDS = 0.05
"""Delay in seconds before an ISR update is repeated because the controller could not apply it, for example because its
metadata store was unreachable.
"""
REJECTED = (errors.IneligibleReplicaError, errors.OperationNotAttemptedError)
"""Errors which mean that the update was not written, although the leader's state is current."""
SUPERSEDED = (
    errors.FencedLeaderEpochError,
    errors.InvalidRequestError,
    errors.InvalidUpdateVersionError,
    errors.NewLeaderElectedError,
    errors.UnknownTopicIdError,
    errors.UnknownTopicOrPartitionError,
)
"""Errors which mean that the leader's partition state is outdated: it has changed, or the partition was deleted.

The controller sends the newer state to this broker. Until it arrives, the leader must assume that its update may have
been written.
"""


class IsrSubmitter(Protocol):
    """Sends ISR updates to the controller. Implemented by `AlterPartitionManager`."""

    async def submit(
        self, tp: TopicPartition, image: PartitionImage, isr: tuple[int, ...], epochs: Mapping[int, int]
    ) -> PartitionImage:
        """Request an ISR to replace that of `image`. Return the state that the controller has written.

        `epochs`: the broker epochs in which the replicas in the ISR have fetched.

        Raises the controller's error, such as FencedLeaderEpochError, InvalidUpdateVersionError or
        IneligibleReplicaError.
        """


async def submit_until_settled(
    updates: IsrSubmitter, tp: TopicPartition, leader_state: LeaderState, isr: tuple[int, ...]
) -> PartitionImage | None:
    """Submit the pending ISR, again and again, until it is written, rejected, superseded or no longer pending.

    Return the new state; None if the update was rejected, superseded or is no longer pending. If the controller rejects
    it, clear the pending ISR.
    """
    image, epochs = leader_state.image, leader_state.broker_epochs(isr)
    while leader_state.pending_isr is isr:
        try:
            return await updates.submit(tp, image, isr, epochs)
        except REJECTED as error:
            log.info(
                "The controller rejected the change of the ISR of %s from %s to %s: %s",
                tp,
                list(image.isr),
                list(isr),
                error.name,
            )
            if leader_state.pending_isr is isr:
                leader_state.clear_pending()
            return None
        except SUPERSEDED as error:
            log.info(
                "No longer requesting the change of the ISR of %s to %s: the partition has changed or was deleted: %s",
                tp,
                list(isr),
                error.name,
            )
            return None
        except errors.KafkaError as error:
            failures_log.warning(
                "Cannot change the ISR of %s to %s; retrying in %g s: %s", tp, list(isr), RETRY_SECONDS, error
            )
            await asyncio.sleep(RETRY_SECONDS)
    return None
