"""Bugs of transactions: coordinator, markers, read_committed consumers."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.simulation.planted.patching import imported, needs, patch

from ottla import errors
from ottla.broker import transaction_verification
from ottla.coordinator.runtime.coordinator_log import CoordinatorLog
from ottla.coordinator.transaction import transactions
from ottla.coordinator.transaction.transaction_completion import TransactionCompleter
from ottla.coordinator.transaction.transaction_markers import LocalMarkers
from ottla.coordinator.transaction.transaction_runtime import TransactionRuntime
from ottla.storage.log import Log
from ottla.storage.producer_state import ProducerStates


def aborted_transactions_are_not_listed() -> None:
    """Responses to read_committed consumers do not list aborted transactions."""
    patch(Log, "aborted_transactions", lambda self, from_offset, until_offset: [])


def open_transactions_are_read() -> None:
    """The last stable offset is the high watermark."""
    patch(Log, "last_stable_offset", property(lambda self: self.high_watermark))


def fenced_producers_go_on() -> None:
    """The coordinator does not compare the epochs of transactional producers."""

    def owned(current: Any, producer: Any) -> Any:
        if current is None:
            raise errors.InvalidProducerIdMappingError
        if current.state in imported(transactions, "PREPARED"):
            raise errors.ConcurrentTransactionsError
        return current

    patch(transactions, "_owned_transaction", owned)


def transactions_are_not_verified() -> None:
    """A batch is appended although its transaction was not started (before KIP-890)."""
    patch(transaction_verification, "ensure_verified", lambda *arguments, **options: None)


def markers_of_old_coordinators_are_written() -> None:
    """A log does not compare the epochs of transaction coordinators."""
    patch(ProducerStates, "check_marker", lambda self, header, marker: None)


@needs("restart", "kill", "isolation")
def markers_are_lost() -> None:
    """A marker that could not be written is not retried."""
    original = TransactionCompleter._write_markers

    async def write(self: Any, *arguments: Any) -> Any:
        await original(self, *arguments)
        return []

    patch(TransactionCompleter, "_write_markers", write)


def markers_are_written_again_later() -> None:
    """A marker is written a second time, when the next transaction may have started."""
    original = LocalMarkers.write

    async def write(self: Any, ending: Any, partitions: Any) -> Any:
        results = await original(self, ending, partitions)

        async def again() -> None:
            await asyncio.sleep(5.5)
            await original(self, ending, partitions)

        self.late = asyncio.ensure_future(again())
        return results

    patch(LocalMarkers, "write", write)
    patch(ProducerStates, "check_bumped", lambda self, producer_id, epoch: None)
    patch(ProducerStates, "check_marker", lambda self, header, marker: None)


@needs("kill", "restart")
def ended_transactions_are_not_completed_after_a_failover() -> None:
    """The next coordinator does not write the markers of transactions whose end is decided."""
    patch(TransactionRuntime, "on_loaded", lambda self, index: None)


@needs("resets", "restart")
def transactions_do_not_time_out() -> None:
    """A transaction of a failed producer stays open."""
    patch(transactions, "is_timed_out", lambda current, now_ms: False)


@needs("cut-from-cluster")
def coordinators_answer_before_replication() -> None:
    """Coordinators respond before their records are committed."""
    original = CoordinatorLog.append

    def append(self: Any, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)

    patch(CoordinatorLog, "append", append)


def the_last_stable_offset_is_too_high() -> None:
    """Transactions whose markers are not replicated yet count as ended."""

    def stable(self: Any) -> int:
        first = next(iter(self.producers.ongoing), None)
        return int(self.log_end_offset if first is None else max(first, self.high_watermark))

    patch(Log, "last_stable_offset", property(stable))


BUGS = (
    aborted_transactions_are_not_listed,
    open_transactions_are_read,
    fenced_producers_go_on,
    transactions_are_not_verified,
    markers_of_old_coordinators_are_written,
    markers_are_lost,
    markers_are_written_again_later,
    ended_transactions_are_not_completed_after_a_failover,
    transactions_do_not_time_out,
    coordinators_answer_before_replication,
    the_last_stable_offset_is_too_high,
)
