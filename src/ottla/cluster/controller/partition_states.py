"""Writes the states of partitions to the metadata store, many at a time, during a controller term.

Each write names the znode version that it is based on. If another broker has written a state meanwhile, that state is
not overwritten, and is missing from the result. Once another broker has become the controller, nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ottla.cluster.controller.election import ControllerTerm
from ottla.cluster.image.cluster_image import PartitionImage
from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import BadVersionError, Create, MetadataStore, NoNodeError, Operation, Set
from ottla.errors import NotControllerError
from ottla.model import TopicPartition

MAX_STATES: Final = 500
"""Maximum number of states that `write` puts into one transaction, far below ZooKeeper's limit of a megabyte."""

States = Mapping[TopicPartition, PartitionImage]


def creations(term: ControllerTerm, name: str, first: int, partitions: Sequence[PartitionImage]) -> list[Operation]:
    """Return the operations that create the states of new partitions, numbered from `first` on, and their parents."""
    writes: list[Operation] = []
    for index, p in enumerate(partitions, start=first):
        writes.append(Create(znodes.partition(name, index)))
        writes.append(Create(znodes.partition_state(name, index), _value(term, p)))
    return writes


def change(term: ControllerTerm, tp: TopicPartition, p: PartitionImage) -> Set:
    """Return the operation that writes a state. It fails if the znode's version is not `p.state_version`."""
    return Set(znodes.partition_state(*tp), _value(term, p), p.state_version)


def written(p: PartitionImage) -> PartitionImage:
    """Return a state with the version that its znode has after the write."""
    return replace(p, state_version=p.state_version + 1)


async def write(store: MetadataStore, term: ControllerTerm, states: States) -> dict[TopicPartition, PartitionImage]:
    """Write states, and return those that were written, with their new versions.

    Raises NotControllerError if a later term has begun.
    """
    done: dict[TopicPartition, PartitionImage] = {}
    items = list(states.items())
    for begin in range(0, len(items), MAX_STATES):
        done.update(await _write_batch(store, term, items[begin : begin + MAX_STATES]))
    return done


async def _write_batch(
    store: MetadataStore, term: ControllerTerm, items: Sequence[tuple[TopicPartition, PartitionImage]]
) -> Iterable[tuple[TopicPartition, PartitionImage]]:
    try:
        await write_fenced(store, term, [change(term, tp, p) for tp, p in items])
    except (BadVersionError, NoNodeError):
        if len(items) == 1:
            return []
        half = len(items) // 2
        return [
            *await _write_batch(store, term, items[:half]),
            *await _write_batch(store, term, items[half:]),
        ]
    return [(tp, written(p)) for tp, p in items]


async def write_fenced(store: MetadataStore, term: ControllerTerm, operations: Sequence[Operation]) -> None:
    """Execute the operations in one transaction.

    Raises NotControllerError, and executes none, if a later term has begun. Raises the other errors of the store.
    """
    try:
        await store.multi([term.fencing_check(), *operations])
    except BadVersionError:
        epoch = await store.get(znodes.CONTROLLER_EPOCH)
        if epoch is None or epoch.version != term.epoch_version:
            raise NotControllerError("another broker is the controller now") from None
        raise


async def write_fenced_in_batches(store: MetadataStore, term: ControllerTerm, operations: Sequence[Operation]) -> None:
    """Execute operations in as many transactions as they need.

    If a transaction fails, earlier ones stay executed, so the operations must be safe to repeat.
    """
    for begin in range(0, len(operations), 2 * MAX_STATES):
        await write_fenced(store, term, operations[begin : begin + 2 * MAX_STATES])


def _value(term: ControllerTerm, p: PartitionImage) -> bytes:
    return znodes.state_value(term.epoch, p.leader, p.leader_epoch, p.isr)
