"""The states of partitions in the store, written many at a time by the controller of this term. Loop thread.

Each write names the version that it was decided from. Where another has written meanwhile, that partition is left as it
is and told as a conflict; where another controller has taken over, nothing is written any more.
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

AT_ONCE: Final = 500
"""States in one transaction: far below the megabyte that ZooKeeper takes."""

States = Mapping[TopicPartition, PartitionImage]


def creations(office: ControllerTerm, name: str, first: int, partitions: Sequence[PartitionImage]) -> list[Operation]:
    """What makes the states of new partitions."""
    writes: list[Operation] = []
    for index, p in enumerate(partitions, start=first):
        writes.append(Create(znodes.partition(name, index)))
        writes.append(Create(znodes.partition_state(name, index), _value(office, p)))
    return writes


def change(office: ControllerTerm, tp: TopicPartition, p: PartitionImage) -> Set:
    """What gives a partition this state, if it is still as it was when that was decided."""
    return Set(znodes.partition_state(*tp), _value(office, p), p.state_version)


def written(p: PartitionImage) -> PartitionImage:
    """The state once it is in the store."""
    return replace(p, state_version=p.state_version + 1)


async def write(store: MetadataStore, office: ControllerTerm, states: States) -> dict[TopicPartition, PartitionImage]:
    """Write states; those that are in the store now, with their versions. The others were changed by another.

    Raises NotControllerError when the term is over.
    """
    done: dict[TopicPartition, PartitionImage] = {}
    items = list(states.items())
    for begin in range(0, len(items), AT_ONCE):
        done.update(await _write_some(store, office, items[begin : begin + AT_ONCE]))
    return done


async def _write_some(
    store: MetadataStore, office: ControllerTerm, items: Sequence[tuple[TopicPartition, PartitionImage]]
) -> Iterable[tuple[TopicPartition, PartitionImage]]:
    try:
        await guarded(store, office, [change(office, tp, p) for tp, p in items])
    except (BadVersionError, NoNodeError):
        if len(items) == 1:
            return []
        half = len(items) // 2
        return [
            *await _write_some(store, office, items[:half]),
            *await _write_some(store, office, items[half:]),
        ]
    return [(tp, written(p)) for tp, p in items]


async def guarded(store: MetadataStore, office: ControllerTerm, operations: Sequence[Operation]) -> None:
    """Do all of the operations, or none if the term is over: NotControllerError."""
    try:
        await store.multi([office.guard(), *operations])
    except BadVersionError:
        epoch = await store.get(znodes.CONTROLLER_EPOCH)
        if epoch is None or epoch.version != office.epoch_version:
            raise NotControllerError("another broker is the controller now") from None
        raise


async def guarded_in_turn(store: MetadataStore, office: ControllerTerm, operations: Sequence[Operation]) -> None:
    """Do operations that are too many for one step. Who finds them half done goes on with them."""
    for begin in range(0, len(operations), 2 * AT_ONCE):
        await guarded(store, office, operations[begin : begin + 2 * AT_ONCE])


def _value(office: ControllerTerm, p: PartitionImage) -> bytes:
    return znodes.state_value(office.epoch, p.leader, p.leader_epoch, p.isr)
