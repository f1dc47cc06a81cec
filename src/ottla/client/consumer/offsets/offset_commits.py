"""The commits of a consumer: automatic, synchronous, asynchronous, before a rebalance and on close."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from ottla.client.consumer.interceptors import ConsumerInterceptors
from ottla.client.consumer.offsets.committed_offsets import CommittedOffsets, Offsets
from ottla.client.consumer.subscription import Subscription
from ottla.client.core.io_thread import run_at_caller
from ottla.config.consumer import ConsumerConfig
from ottla.errors import KafkaError, RetriableCommitFailedError, StaleMemberEpochError
from ottla.logs import listed, reason_of
from ottla.model import OffsetAndMetadata, TopicPartition

log = logging.getLogger("ottla.client")

CommitCallback = Callable[[Offsets, BaseException | None], Any]


class OffsetCommits:
    """The commits of one consumer. Event loop only, except for `is_due` and `callbacks`, which the polling thread
    reads.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        group_offsets: CommittedOffsets,
        subscription: Subscription,
        interceptors: ConsumerInterceptors,
    ) -> None:
        self.group_offsets = group_offsets
        self.subscription = subscription
        self.interceptors = interceptors
        self.automatic = config.enable_auto_commit and config.group_id is not None
        self._interval = config.auto_commit_interval_ms / 1000
        self._retry_backoff = config.retry_backoff_ms / 1000
        self._api_timeout = config.default_api_timeout_ms / 1000
        self._default_callback: CommitCallback | None = config.default_offset_commit_callback
        self._rebalance_timeout = config.max_poll_interval_ms / 1000
        self.next_due = time.monotonic() + self._interval
        self._in_flight: set[asyncio.Task[None]] = set()
        self.callbacks: deque[Callable[[], Any]] = deque()
        """The pending calls of commit callbacks and interceptors, in the order in which the commits ended. The next
        poll, successful synchronous commit or close makes them.
        """

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions of all partitions that have one, with the leader epochs of the records before them."""
        return {
            tp: OffsetAndMetadata(state.position, "", state.epoch)
            for tp, state in self.subscription.partitions.items()
            if state.position is not None
        }

    @property
    def is_due(self) -> bool:
        """Whether an automatic commit is due."""
        return self.automatic and time.monotonic() >= self.next_due

    def make_due(self) -> None:
        """If an automatic commit is due, start it, unless there is no position to commit, another automatic or
        asynchronous commit is in flight, or the coordinator would reject it.
        """
        if self.is_due:
            self.next_due = time.monotonic() + self._interval
            offsets = self.consumed() if self.group_offsets.membership.can_commit else {}
            if offsets and not self._in_flight:
                self._start(offsets, None, self._automatic_ended)

    def _automatic_ended(self, error: BaseException | None) -> None:
        group = self.group_offsets.group_id
        if isinstance(error, RetriableCommitFailedError):
            self.next_due = min(self.next_due, time.monotonic() + self._retry_backoff)
            log.debug(
                "group %s: automatic offset commit failed; poll() retries it after %g s: %s",
                group,
                self._retry_backoff,
                error,
            )
        elif error is not None:
            log.warning(
                "group %s: automatic offset commit failed; poll() commits again after auto.commit.interval.ms=%d. If "
                "the group rebalances or the consumer stops before, records may be read again: %s",
                group,
                round(self._interval * 1000),
                reason_of(error),
            )

    async def commit_sync(self, offsets: Offsets, deadline: float) -> None:
        """Commit after the commits in flight, and wait for the result. After a success, run the callbacks of the
        commits that have ended, and the interceptors.
        """
        await self._let_earlier_commits_queue()
        await self.group_offsets.commit(offsets, deadline)
        await asyncio.sleep(0)  # lets commits that have just ended add their callbacks
        self._committed(offsets)
        await self.run_callbacks()

    def commit_async(self, offsets: Offsets, callback: CommitCallback | None) -> None:
        """Commit in the background. The commit itself is not retried. `run_callbacks` later calls `callback` (None:
        default_offset_commit_callback, if set) with (offsets, error).
        """
        self._start(offsets, callback, lambda error: self._asynchronous_ended(offsets, error))

    def _asynchronous_ended(self, offsets: Offsets, error: BaseException | None) -> None:
        if error is not None:
            log.log(
                logging.DEBUG if isinstance(error, RetriableCommitFailedError) else logging.WARNING,
                "group %s: asynchronous offset commit of %s failed and is not retried: %s",
                self.group_offsets.group_id,
                listed(sorted(offsets)),
                error,
            )

    def _start(
        self, offsets: Offsets, callback: CommitCallback | None, then: Callable[[BaseException | None], None]
    ) -> None:
        callback = callback or self._default_callback
        task = asyncio.get_running_loop().create_task(self._commit(offsets))
        self._in_flight.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._in_flight.discard(task)
            if task.cancelled():
                return
            error = task.exception()
            then(error)
            if error is None:
                self._committed(offsets)
            if callback is not None:
                self.callbacks.append(lambda: callback(offsets, error))

        task.add_done_callback(ended)

    async def _commit(self, offsets: Offsets) -> None:
        if not offsets:
            return
        deadline = time.monotonic() + self._api_timeout
        try:
            await self.group_offsets.commit_once(offsets, self.group_offsets.membership.committer(), deadline)
        except KafkaError as error:
            if error.retriable or isinstance(error, StaleMemberEpochError):
                raise RetriableCommitFailedError(f"{RetriableCommitFailedError.__doc__} ({error})") from error
            raise

    async def run_callbacks(self) -> None:
        """Run the pending callbacks in the thread that called the consumer."""
        while self.callbacks:
            await run_at_caller(self.callbacks.popleft())

    async def before_revoke(self) -> None:
        """Commit the positions before partitions are revoked, if auto commit is enabled."""
        if self.automatic:
            await self._commit_quietly(time.monotonic() + min(self._rebalance_timeout, self._api_timeout))

    async def commit_on_close(self, deadline: float, automatic: bool) -> None:
        """Before closing, wait for commits in flight, commit automatically if both `automatic` and auto commit are set,
        and run the callbacks.
        """
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=max(0.0, deadline - time.monotonic()))
        if self.automatic and automatic:
            await self._commit_quietly(deadline)
        await asyncio.sleep(0)
        await self.run_callbacks()

    async def _commit_quietly(self, deadline: float) -> None:
        offsets = self.consumed()
        await self._let_earlier_commits_queue()
        try:
            await self.group_offsets.commit(offsets, deadline)
        except KafkaError as error:
            log.warning(
                "group %s: could not commit the offsets of %s before giving up partitions, so records may be read "
                "again: %s",
                self.group_offsets.group_id,
                listed(sorted(offsets)),
                error,
            )
        else:
            self._committed(offsets)

    async def _let_earlier_commits_queue(self) -> None:
        """Let the tasks of asynchronous commits that have not run yet queue up, so that they are sent first."""
        if self._in_flight:
            await asyncio.sleep(0)

    def _committed(self, offsets: Offsets) -> None:
        if self.interceptors and offsets:
            self.callbacks.append(lambda: self.interceptors.on_commit(offsets))

    async def close(self) -> None:
        """Cancel the commits in flight."""
        tasks = list(self._in_flight)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
