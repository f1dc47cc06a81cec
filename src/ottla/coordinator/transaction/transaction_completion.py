"""Completion of prepared transactions: writes their markers, then their completion.

Each transaction has a task. A marker that cannot be written is retried with backoff, or as soon as its partition has
another leader or ISR, unless the partition was deleted, or the producer has continued there. When another broker
becomes the coordinator, the task stops, and the new coordinator writes all markers again; a repeated marker has no
effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Collection

from ottla import errors
from ottla.backoff import ExponentialBackoff
from ottla.cluster.image.cluster_image import ClusterImage, PartitionImage
from ottla.coordinator.runtime.coordinator_log import wait_committed
from ottla.coordinator.transaction.transaction import Transaction
from ottla.coordinator.transaction.transaction_markers import Markers, TransactionEnd
from ottla.model import ProducerIdAndEpoch, TopicPartition
from ottla.replication.partition import Partition

log = logging.getLogger("ottla.coordinator")

BACKOFF = ExponentialBackoff(0.1, 5.0)
"""The backoff in seconds between attempts to write markers, or the record of a completion."""

States = dict[TopicPartition, PartitionImage | None]
"""Partitions with their states in the cluster image; None if a partition does not exist."""


class TransactionCompleter:
    """Completes the prepared transactions of one coordinator. Not thread-safe: event loop only."""

    def __init__(
        self,
        markers: Markers,
        image: Callable[[], ClusterImage],
        complete: Callable[[Transaction], None],
    ) -> None:
        self._markers = markers
        self._image = image
        self._complete = complete
        self._retrying: dict[str, tuple[States, asyncio.Event]] = {}
        """Transactions that wait for a retry, with the states of their unmarked partitions at the last attempt."""
        self.tasks: dict[str, asyncio.Task[None]] = {}
        """The tasks that complete transactions, by transactional id."""

    def start(self, prepared: Transaction, partition: Partition) -> None:
        """Start to complete a transaction: write its markers once its prepared state is committed.

        `partition`: the partition of `__transaction_state` that has the prepared state.
        """
        end = partition.log.log_end_offset
        task = asyncio.get_running_loop().create_task(self._complete_when_marked(prepared, partition, end))
        self.tasks[prepared.id] = task
        task.add_done_callback(functools.partial(self._on_done, prepared.id))

    def stop(self, transactional_id: str) -> None:
        """Stop completing a transaction."""
        task = self.tasks.pop(transactional_id, None)
        if task is not None:
            task.cancel()

    async def wait(self, transactional_id: str, seconds: float) -> None:
        """Wait until the task that completes a transaction of the id ends, if there is one, but at most `seconds`."""
        task = self.tasks.get(transactional_id)
        if task is not None:
            await asyncio.wait([task], timeout=seconds)

    def close(self) -> None:
        for transactional_id in list(self.tasks):
            self.stop(transactional_id)

    async def on_image_changed(self, _before: ClusterImage, _after: ClusterImage) -> None:
        """Retry transactions whose partitions have changed."""
        for states, changed in self._retrying.values():
            if self._states(states) != states:
                changed.set()

    def _states(self, partitions: Collection[TopicPartition]) -> States:
        image = self._image()
        return {tp: image.partition(tp) for tp in partitions}

    def _on_done(self, transactional_id: str, task: asyncio.Task[None]) -> None:
        if self.tasks.get(transactional_id) is task:
            del self.tasks[transactional_id]
        error = None if task.cancelled() else task.exception()
        if isinstance(error, errors.TransactionCoordinatorFencedError):
            log.info(
                "Not completing the transaction of transactional_id=%s here, because another broker coordinates it "
                "now: %s",
                transactional_id,
                error,
            )
        elif error is not None and not isinstance(error, errors.NotCoordinatorError):
            log.error(
                "After an unexpected error, the transaction of transactional_id=%s stays incomplete. Restart this "
                "broker, or move the leader of its partition of __transaction_state to another broker.",
                transactional_id,
                exc_info=error,
            )

    async def _complete_when_marked(self, prepared: Transaction, partition: Partition, end: int) -> None:
        """Write markers until none is missing, then write the completion. Failures are retried with backoff."""
        await _until_replicated(partition, end)
        unmarked: Collection[TopicPartition] = prepared.partitions
        failures = 0
        while True:
            states = self._states(unmarked)
            unmarked = await self._write_markers(prepared, unmarked, partition.image.leader_epoch)
            if not unmarked and self._try_complete(prepared):
                return
            if await self._wait_changed(prepared.id, {tp: states[tp] for tp in unmarked}, BACKOFF.backoff(failures)):
                failures = 0
            else:
                failures += 1

    async def _wait_changed(self, transactional_id: str, states: States, seconds: float) -> bool:
        """Wait `seconds` before a retry, or until a partition changes. Return whether one has changed."""
        changed = asyncio.Event()
        self._retrying[transactional_id] = states, changed
        if self._states(states) != states:
            changed.set()  # a partition has changed during the attempt
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await changed.wait()
        finally:
            del self._retrying[transactional_id]
        return changed.is_set()

    async def _write_markers(
        self, prepared: Transaction, partitions: Collection[TopicPartition], coordinator_epoch: int
    ) -> Collection[TopicPartition]:
        """Write markers. Return the partitions that have to be retried.

        Raises TransactionCoordinatorFencedError if another broker coordinates the transaction.
        """
        producer = ProducerIdAndEpoch(prepared.producer_id, prepared.producer_epoch)
        ending = TransactionEnd(producer, prepared.committing, coordinator_epoch, prepared.version)
        unmarked = []
        for tp, error in (await self._markers.write(ending, partitions)).items():
            if error is None:
                continue
            if isinstance(error, errors.TransactionCoordinatorFencedError):
                raise error  # another broker completes the transaction
            if isinstance(error, errors.InvalidProducerEpochError):
                log.info(
                    "Not writing the transaction marker of transactional_id=%s to %s again, because the producer has "
                    "continued there since: %s",
                    prepared.id,
                    tp,
                    error,
                )
            elif self._image().partition(tp) is None:
                log.info(
                    "Not writing the transaction marker of transactional_id=%s to %s, because the partition was "
                    "deleted",
                    prepared.id,
                    tp,
                )
            else:
                log.warning(
                    "Cannot write the transaction marker of transactional_id=%s to %s; retrying: %s",
                    prepared.id,
                    tp,
                    error,
                )
                unmarked.append(tp)
        return unmarked

    def _try_complete(self, prepared: Transaction) -> bool:
        try:
            self._complete(prepared)
        except errors.KafkaError as error:
            log.warning(
                "Cannot write to __transaction_state that the transaction of transactional_id=%s is complete; "
                "retrying: %s",
                prepared.id,
                error.__cause__ or error,  # the cause is the error of the append
            )
            return False
        return True


async def _until_replicated(partition: Partition, end: int) -> None:
    """Wait until everything before offset `end` is committed.

    Raises NotCoordinatorError if this broker stops being the leader before that.
    """
    while (committed := partition.when_committed(end)) is not None:
        if not partition.leads:
            raise errors.NotCoordinatorError
        try:
            await wait_committed(committed)
        except errors.CoordinatorNotAvailableError:
            continue  # too few replicas are in sync; the record is committed when there are enough again
