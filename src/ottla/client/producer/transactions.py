"""Transactions of one producer: begin, send, offsets, commit or abort (KIP-98; KIP-890 if the cluster supports it).

With `transaction.version` 2 the broker adds a partition to the transaction with its first batch and bumps the producer
epoch when the transaction ends; otherwise a request adds each partition before its first batch. A transaction that has
failed can only be aborted. If it has failed with a fatal error, such as fencing, the producer can only be closed. Not
thread-safe: event loop only.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

from ottla import errors
from ottla.client.core.connections import Connections
from ottla.client.core.coordinator import MOVED, TRANSACTION, Coordinator
from ottla.client.core.metadata import Metadata
from ottla.client.producer.transaction_manager import NO_PRODUCER_ID, TransactionManager
from ottla.config.client import MAX_INT
from ottla.config.producer import ProducerConfig
from ottla.errors import IllegalStateError, KafkaError, KafkaTimeoutError, TransactionAbortedError
from ottla.logs import listed
from ottla.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.protocol.message import Request, Response
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

log = logging.getLogger("ottla.client")

R = TypeVar("R", bound=Response)

FEATURE: Final = "transaction.version"
NEWER: Final = 2
"""The level of `transaction.version` from which brokers add partitions implicitly."""
OLDER_VERSIONS: Final = {
    InitProducerIdRequest: 5,
    AddPartitionsToTxnRequest: 3,
    EndTxnRequest: 4,
    TxnOffsetCommitRequest: 4,
}
NEWER_VERSIONS: Final = {InitProducerIdRequest: 5, TxnOffsetCommitRequest: 5}
"""Maximum request versions: OLDER_VERSIONS if the level of `transaction.version` is below NEWER, else NEWER_VERSIONS.
With two-phase commit, the version of InitProducerId is at least TWO_PHASE_INIT instead.
"""
TWO_PHASE_INIT: Final = 6
"""The first version of InitProducerId with two-phase commit (KIP-939)."""
CLOSE_SECONDS: Final = 5.0
"""Maximum time in seconds for which closing a producer waits until an open transaction is aborted."""
RETRIED: Final = (*MOVED, errors.ConcurrentTransactionsError, errors.UnknownTopicOrPartitionError)
FATAL: Final = (
    errors.ProducerFencedError,
    errors.InvalidProducerEpochError,
    errors.InvalidProducerIdMappingError,
    errors.InvalidTxnStateError,
    errors.TransactionalIdAuthorizationFailedError,
    errors.UnsupportedVersionError,
)
"""Errors of a transaction after which the producer must be closed, for example because it was fenced."""


class State(enum.Enum):
    """The state of a transactional producer. The values are texts for error messages."""

    NEW = "init_transactions() has not been called"
    READY = "no transaction is open"
    OPEN = "a transaction is open"
    ENDING = "the transaction is being committed or aborted"
    BROKEN = "the transaction has failed and can only be aborted"
    FAILED = "the producer has failed and must be closed"


MOVES: Final[Mapping[State, frozenset[State]]] = {
    State.NEW: frozenset({State.READY, State.FAILED}),
    State.READY: frozenset({State.OPEN, State.FAILED}),
    State.OPEN: frozenset({State.ENDING, State.BROKEN, State.FAILED}),
    State.ENDING: frozenset({State.READY, State.BROKEN, State.FAILED}),
    State.BROKEN: frozenset({State.ENDING, State.FAILED}),
    State.FAILED: frozenset(),
}
"""The legal transitions of the state."""


class Transactions:
    """The transactions of one transactional id.

    `drained` sends all pending records and waits for their results; `give_up` fails all queued batches.
    """

    def __init__(
        self,
        config: ProducerConfig,
        connections: Connections,
        metadata: Metadata,
        numbers: TransactionManager,
        drained: Callable[[], Coroutine[Any, Any, object]],
        give_up: Callable[[KafkaError], None],
        wake: Callable[[], None],
    ) -> None:
        self.id: str = str(config.transactional_id)
        self.state: State = State.NEW
        self.newer: bool = False
        """Whether brokers add partitions implicitly: whether the coordinator reported `transaction.version` 2 or above
        after the last InitProducerId.
        """
        self._config = config
        self._connections = connections
        self._metadata = metadata
        self._numbers = numbers
        self._drained = drained
        self._give_up = give_up
        self._wake = wake
        self._error: KafkaError | None = None
        self._retry_backoff = config.retry_backoff_ms / 1000
        self._coordinator = self._find_coordinator()
        self._partitions: set[TopicPartition] = set()
        self._unregistered: set[TopicPartition] = set()
        self._has_offsets = False
        self._ending = False
        """While the state is ENDING: True for a commit, False for an abort."""
        self._broken = False
        """Whether records of the transaction may still arrive at brokers after its end. A new epoch is then needed to
        fence them.
        """
        self._announcing: asyncio.Task[None] | None = None

    # Calls of the user

    async def init(self) -> None:
        """Initialize the transactional id. An earlier producer with this id is fenced, and its open transaction
        aborted.
        """
        if self.state is not State.NEW:
            raise IllegalStateError("init_transactions() must be called only once")
        await self.take_over(self.id)

    async def take_over(self, transactional_id: str) -> None:
        """Initialize a transactional id, possibly a different one than before. No transaction may be open. Connections
        and metadata are reused.

        As for a new producer, an earlier producer with this id is fenced, and its open transaction aborted.
        """
        if self.state not in (State.NEW, State.READY):
            raise IllegalStateError(f"cannot initialize {transactional_id}: {self.state.value}")
        if transactional_id != self.id:
            self.id = transactional_id
            self._coordinator = self._find_coordinator()
        await self._new_epoch(NO_PRODUCER_ID, -1)
        self._move(State.READY)

    def begin(self) -> None:
        """Begin a transaction. Raises the error of a failed transaction that was not aborted, else IllegalStateError if
        a transaction is open or ending, or if the transactional id has not been initialized.
        """
        self._check_error()
        if self.state is not State.READY:
            raise IllegalStateError(f"cannot begin a transaction: {self.state.value}")
        self._move(State.OPEN)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Add consumer offsets to the transaction. They are committed with it."""
        self.check_open()
        if not offsets:
            return
        deadline = self._deadline()
        try:
            if not self.newer:
                request = AddOffsetsToTxnRequest(
                    transactional_id=self.id,
                    producer_id=self._numbers.producer_id,
                    producer_epoch=self._numbers.epoch,
                    group_id=group.group_id,
                )
                await self._send(self._coordinator, request, deadline)
            self._has_offsets = True
            of_group = Coordinator(group.group_id, self._connections, self._metadata, self._retry_backoff)
            await self._send(of_group, self._commit_of(offsets, group), deadline)
        except KafkaError as error:
            self.failed(error)
            raise self._error or error from None
        except asyncio.CancelledError:
            self.failed(TransactionAbortedError("sending the offsets was interrupted, and they may still arrive"))
            raise

    async def end(self, *, commit: bool) -> None:
        """Commit or abort the transaction. If it has partitions or offsets, wait until the coordinator has decided.
        If the coordinator does not respond in time (KafkaTimeoutError), the call can be repeated with the same
        `commit`.
        """
        if self.state is State.ENDING:
            if commit is not self._ending:
                raise IllegalStateError(f"the transaction is being {'committed' if self._ending else 'aborted'}")
        elif commit:
            self.check_open()
            await self._drained()
            self.check_open()  # a record may have failed in the meantime
        else:
            if self.state not in (State.OPEN, State.BROKEN):
                self._check_error()
                raise IllegalStateError(f"cannot abort: {self.state.value}")
            self._give_up(TransactionAbortedError("the transaction was aborted"))
        self._ending = commit
        self._move_to_end()
        if not commit:
            await self._drained()
            if self._announcing is not None:  # otherwise its partitions would start another transaction after the end
                await asyncio.wait({self._announcing})
            self._move_to_end()  # also because of what was in flight
        await self._end(commit)

    def _move_to_end(self) -> None:
        if self.state is State.FAILED:
            self._check_error()
        self._broken |= self.state is State.BROKEN
        self._move(State.ENDING)

    async def _end(self, commit: bool) -> None:
        try:
            if self._partitions or self._has_offsets:
                request = EndTxnRequest(
                    transactional_id=self.id,
                    producer_id=self._numbers.producer_id,
                    producer_epoch=self._numbers.epoch,
                    committed=commit,
                )
                answer = await self._send(self._coordinator, request, self._deadline())
                if answer.producer_id != NO_PRODUCER_ID:
                    self._numbers.restart(answer.producer_id, answer.producer_epoch)
                    self._broken = False
            if self._broken or self._numbers.broken:
                await self._new_epoch(self._numbers.producer_id, self._numbers.epoch)
        except KafkaTimeoutError:
            raise  # it is unknown whether it has ended: only the same call can be repeated
        except KafkaError as error:
            self.failed(error)
            raise self._error or error from None
        self._partitions.clear()
        self._unregistered.clear()
        self._has_offsets = self._broken = False
        self._error = None
        self._move(State.READY)

    # Calls of the sender

    def check_open(self) -> None:
        """Raise an error unless a transaction is open and has not failed."""
        self._check_error()
        if self.state is not State.OPEN:
            raise IllegalStateError(f"transactional.id {self.id}: {self.state.value}")

    def may_send(self, tp: TopicPartition) -> bool:
        """Return whether a batch of this partition may be sent now. If the partition has to be added to the transaction
        first, schedule that.
        """
        if self.state not in (State.OPEN, State.ENDING):
            return False
        if self.newer:
            self._partitions.add(tp)
            return True
        if tp in self._partitions:
            return True
        self._unregistered.add(tp)
        if self._announcing is None:
            self._announcing = asyncio.get_running_loop().create_task(self._announce())
            self._announcing.add_done_callback(self._announced)
        return False

    def batch_failed(self, error: KafkaError) -> None:
        """Handle the failure of a batch like `failed`, but ignore a TransactionAbortedError."""
        if not isinstance(error, TransactionAbortedError):
            self.failed(error)

    def failed(self, error: KafkaError) -> None:
        """Let the transaction fail, so that it can only be aborted. After a fatal error, the producer can only be
        closed. Do nothing if there is no transaction. If it has already failed, only the first fatal error counts.
        """
        if isinstance(error, errors.InvalidProducerEpochError):
            error = errors.ProducerFencedError(error.message)  # older brokers return this code for the same
        fatal = isinstance(error, FATAL)
        if self.state in (State.FAILED, State.READY, State.NEW) or (self.state is State.BROKEN and not fatal):
            return
        self._error = error
        remedy = "the producer must be closed" if fatal else "must be aborted"
        log.warning("transactional.id %s: the transaction has failed, and %s: %s", self.id, remedy, error)
        self._move(State.FAILED if fatal else State.BROKEN)
        self._give_up(error)  # no more records of this transaction will be sent

    async def close(self, seconds: float | None = None) -> None:
        """Try to abort an open transaction within `seconds`, at most CLOSE_SECONDS (None: CLOSE_SECONDS), and stop."""
        limit = CLOSE_SECONDS if seconds is None else min(seconds, CLOSE_SECONDS)
        if self.state in (State.OPEN, State.BROKEN) and limit > 0:
            try:
                async with asyncio.timeout(limit):
                    await self.end(commit=False)
            except (KafkaError, TimeoutError) as error:
                config = self._config
                log.warning(
                    "transactional.id %s: could not abort the open transaction before closing; %s: %s",
                    self.id,
                    "it may stay open, because two-phase commit has no timeout"
                    if config.transaction_two_phase_commit_enable
                    else "the coordinator aborts it at the latest after "
                    f"transaction.timeout.ms={config.transaction_timeout_ms}",
                    str(error) or f"no response within {limit:g} s",
                )
        if self._announcing is not None:
            self._announcing.cancel()
            await asyncio.gather(self._announcing, return_exceptions=True)

    # Requests

    def _find_coordinator(self) -> Coordinator:
        return Coordinator(self.id, self._connections, self._metadata, self._retry_backoff, kind=TRANSACTION)

    async def _new_epoch(self, producer_id: int, epoch: int) -> None:
        two_phase = self._config.transaction_two_phase_commit_enable
        request = InitProducerIdRequest(
            transactional_id=self.id,
            transaction_timeout_ms=MAX_INT if two_phase else self._config.transaction_timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            enable_2pc=two_phase,
        )
        answer = await self._send(self._coordinator, request, self._deadline())
        self._numbers.restart(answer.producer_id, answer.producer_epoch)
        self.newer = await self._transaction_version() >= NEWER

    async def _transaction_version(self) -> int:
        """Return the level of `transaction.version` that the coordinator reports; 0 if it reports none. After a
        retriable error, try again until `max.block.ms` has passed.
        """
        coordinator, deadline = self._coordinator, self._deadline()
        while True:
            try:
                connection = await self._connections.connect(await coordinator.find(deadline))
                return connection.features.get(FEATURE, 0)
            except KafkaError as error:
                if not error.retriable:
                    raise
                coordinator.node = None
                await coordinator.back_off(
                    deadline, f"transactional.id {self.id}: the coordinator is unreachable", error
                )

    async def _announce(self) -> None:
        """Add the new partitions to the transaction. After an unexpected error, the sender tries again, but not before
        the backoff.
        """
        try:
            await self._add_partitions()
        except KafkaError as error:
            self._unregistered.clear()
            self.failed(error)
        except Exception:  # a bug must be logged, not block every record
            log.exception(
                "transactional.id %s: could not add %s to the transaction; retrying in %g s",
                self.id,
                listed(sorted(self._unregistered)),
                self._retry_backoff,
            )
            await asyncio.sleep(self._retry_backoff)

    async def _add_partitions(self) -> None:
        while self._unregistered:
            partitions = frozenset(self._unregistered)
            by_topic: dict[str, list[int]] = defaultdict(list)
            for tp in partitions:
                by_topic[tp.topic].append(tp.partition)
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.id,
                v3_and_below_producer_id=self._numbers.producer_id,
                v3_and_below_producer_epoch=self._numbers.epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=n, partitions=p) for n, p in by_topic.items()],
            )
            await self._send(self._coordinator, request, self._deadline())
            self._partitions |= partitions
            self._unregistered -= partitions
            self._wake()

    def _announced(self, _: asyncio.Task[None]) -> None:
        self._announcing = None
        self._wake()

    async def _send(self, coordinator: Coordinator, request: Request[R], deadline: float) -> R:
        """Send a request to a coordinator, and return the response. Retriable errors are retried until the deadline;
        others are raised.
        """
        at_most = (NEWER_VERSIONS if self.newer else OLDER_VERSIONS).get(type(request))
        if isinstance(request, InitProducerIdRequest) and request.enable_2pc:
            at_most = TWO_PHASE_INIT
        while True:
            try:
                answer = await coordinator.send(request, deadline, at_most=at_most)
                code = _first_error(answer)
                if not code:
                    return answer
                raise errors.for_code(code)
            except KafkaError as error:
                if not (error.retriable or isinstance(error, RETRIED)) or isinstance(error, FATAL):
                    raise
                coordinator.handle_error(type(error))
                await coordinator.back_off(
                    deadline, f"transactional.id {self.id}: no successful response to {request.NAME}", error
                )

    def _commit_of(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> TxnOffsetCommitRequest:
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = defaultdict(list)
        for tp, offset in offsets.items():
            topics[tp.topic].append(
                TxnOffsetCommitRequestPartition(
                    partition_index=tp.partition,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    committed_metadata=offset.metadata,
                )
            )
        return TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group.group_id,
            producer_id=self._numbers.producer_id,
            producer_epoch=self._numbers.epoch,
            generation_id_or_member_epoch=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()
            ],
        )

    def _deadline(self) -> float:
        return time.monotonic() + self._config.max_block_ms / 1000

    def _check_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _move(self, state: State) -> None:
        if state is not self.state and state not in MOVES[self.state]:
            raise IllegalStateError(
                f"transactional.id {self.id}: illegal transition to {state.name}: {self.state.value}"
            )
        self.state = state


def as_group_metadata(group: ConsumerGroupMetadata | str) -> ConsumerGroupMetadata:
    """Return the group metadata. A group id alone (before KIP-447) becomes metadata without a member."""
    return ConsumerGroupMetadata(group) if isinstance(group, str) else group


def _first_error(answer: Response) -> int:
    """Return the first error code in a response, that of the response or of a partition; 0 if there is none.

    OPERATION_NOT_ATTEMPTED only says that another partition has an error, whose code is returned instead.
    """
    code: int = getattr(answer, "error_code", 0)
    if code:
        return code
    if isinstance(answer, AddPartitionsToTxnResponse):
        results = (p for topic in answer.results_by_topic_v3_and_below for p in topic.results_by_partition)
        codes = [p.partition_error_code for p in results if p.partition_error_code]
        return next((c for c in codes if c != errors.OperationNotAttemptedError.code), codes[0] if codes else 0)
    topics = getattr(answer, "topics", ())
    return next((p.error_code for topic in topics for p in topic.partitions if p.error_code), 0)
