"""One streams group: its topology, its members, and the tasks that they have. Kafka's `StreamsGroup`.

    Empty ──join──▶ NotReady ──topics exist──▶ Assigning ──target computed──▶ Reconciling ──all at target──▶ Stable
      ▲                                            ▲                                                           │
      └──last one left─────────────────────────────┴──────────join, leave, other topics────────────────────────┘

The state follows from the members, the topology and the epochs. Apart from `timers` and `transient`, which are not in
the log, a group is changed only by replaying records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from ottla import errors
from ottla.coordinator.group.common.consumer_member import MemberState, ModernMember
from ottla.coordinator.group.common.group import Committer
from ottla.coordinator.group.common.member_timers import Timers, next_timeout
from ottla.coordinator.group.common.modern_group import ModernGroup
from ottla.coordinator.group.streams.configured_topology import ConfiguredTopology
from ottla.coordinator.group.streams.streams_topology import StreamsTopology
from ottla.coordinator.group.streams.tasks import NO_TASKS, Task, TaskId, TaskRole, Tasks
from ottla.coordinator.runtime.deadline_queue import NEVER
from ottla.model import TopicPartition

EPOCHS_SINCE = 9
"""First OffsetCommit version that has the member epoch."""
FIRST_EPOCH = 1
"""The epoch of a new group.

Members have it, without tasks, until the first assignment; 0 would mean that they join again.
"""
NOT_VALIDATED = -1
"""The validated topology epoch of a group whose topics are missing or do not fit."""


class StreamsGroupState(StrEnum):
    """The states, with Kafka's names."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class UserEndpoint(NamedTuple):
    """The address of an instance for interactive queries."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsMember(ModernMember):
    """A member: a thread of a Kafka Streams process. Immutable."""

    instance_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: UserEndpoint | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    state: MemberState = MemberState.STABLE
    assigned: Tasks = NO_TASKS
    revoking: Tasks = NO_TASKS
    assignment_epochs: Mapping[TaskId, int] = field(default_factory=dict)
    """The epoch in which the member received each of its active tasks, including those it has to revoke."""

    @property
    def holds(self) -> Tasks:
        """The tasks that the member may still run: those assigned, and those it has to revoke."""
        return self.assigned | self.revoking

    def is_reconciled(self, target_epoch: int) -> bool:
        """Return whether the member has exactly the target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    @property
    def description(self) -> tuple[object, ...]:
        """The fields of a StreamsGroupMemberMetadata record."""
        return (
            *(self.instance_id, self.rack_id, self.client_id, self.client_host, self.rebalance_timeout_ms),
            *(self.topology_epoch, self.process_id, self.user_endpoint, self.client_tags),
        )


@dataclass(slots=True)
class TransientState:
    """The state of a group that is not in the log. It is lost when another broker becomes the coordinator."""

    configured: ConfiguredTopology | None = None
    delayed_until: float = NEVER
    """The end of the initial rebalance delay, in seconds of the clock's `monotonic`; NEVER if there is no such delay.
    """
    shutdown_requested_by: str | None = None
    """The member that has requested the shutdown of the whole application; None if none has."""
    endpoint_epoch: int = 0
    """Incremented when the tasks of a member with an address change, or such a member joins."""


@dataclass(slots=True)
class StreamsGroup(ModernGroup[StreamsMember, Tasks]):
    """A streams group: its topology, its members, and the owners of tasks."""

    TYPE = "streams"

    epoch: int = FIRST_EPOCH
    target_epoch: int = FIRST_EPOCH
    topology: StreamsTopology | None = None
    validated_topology_epoch: int = NOT_VALIDATED
    assignor_configs: Mapping[str, str] = field(default_factory=dict)
    """The configs of the assignor for the current epoch, by Kafka's names."""
    active_owners: dict[TaskId, str] = field(default_factory=dict)
    """The ids of members by their active tasks. No other member may get these as active tasks."""
    copy_owners: dict[TaskId, frozenset[str]] = field(default_factory=dict)
    """The ids of the members that have each task as a standby or warm-up task."""

    timers: dict[str, Timers] = field(default_factory=dict)
    transient: TransientState = field(default_factory=TransientState)

    @property
    def state_name(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return StreamsGroupState.ASSIGNING
        reconciled = all(m.is_reconciled(self.target_epoch) for m in self.members.values())
        return StreamsGroupState.STABLE if reconciled else StreamsGroupState.RECONCILING

    def copy(self) -> StreamsGroup:
        """Return a copy for an update, without timers. `transient` is shared."""
        return replace(
            self,
            members=dict(self.members),
            targets=dict(self.targets),
            active_owners=dict(self.active_owners),
            copy_owners=dict(self.copy_owners),
            timers={},
        )

    def put(self, member: StreamsMember) -> None:
        old = self.members.get(member.id)
        if old is not None:
            self._release(old)
        self.members[member.id] = member
        for role, task_id in member.holds:
            if role is TaskRole.ACTIVE:
                self.active_owners[task_id] = member.id
            else:
                self.copy_owners[task_id] = self.copy_owners.get(task_id, frozenset()) | {member.id}

    def remove(self, member_id: str) -> None:
        """Remove a member and its timers, if they exist, and release its tasks."""
        member = self.members.pop(member_id, None)
        self.timers.pop(member_id, None)
        if member is not None:
            self._release(member)

    def _release(self, member: StreamsMember) -> None:
        for role, task_id in member.holds:
            if role is TaskRole.ACTIVE:
                if self.active_owners.get(task_id) == member.id:
                    del self.active_owners[task_id]
                continue
            others = self.copy_owners.get(task_id, frozenset()) - {member.id}
            if others:
                self.copy_owners[task_id] = others
            else:
                self.copy_owners.pop(task_id, None)

    def is_free(self, task: Task, member: StreamsMember) -> bool:
        """Return whether a member may get a task now.

        No other member of the same process may have the task, because the members of a process share a state directory.
        For the active role, the task must not be active in any other member either.
        """
        owner = self.active_owners.get(task.id, member.id)
        if owner != member.id and (task.role is TaskRole.ACTIVE or self._shares_process(member, (owner,))):
            return False
        return not self._shares_process(member, self.copy_owners.get(task.id, ()))

    def _shares_process(self, member: StreamsMember, others: Iterable[str]) -> bool:
        return any(other != member.id and self.members[other].process_id == member.process_id for other in others)

    def topics(self) -> frozenset[str]:
        """Return the names of the topics that the group reads; none while it is empty, so that offsets expire."""
        if self.topology is None or not self.members:
            return frozenset()
        return frozenset(self.topology.readers)

    def check_commit(self, committer: Committer, version: int, now: float) -> None:
        """Raise an error if this client may not commit these offsets.

        A client without an epoch may commit if the group is empty, or as a transactional producer that names no member.
        A member may commit with an earlier epoch for active tasks that it has had since then.
        """
        if committer.epoch < 0 and (not self.members or committer.is_anonymous_producer):
            return
        member = self.member(committer.member_id)
        if not committer.transactional and version < EPOCHS_SINCE:
            raise errors.UnsupportedVersionError(
                f"members of this group must commit offsets with OffsetCommit {EPOCHS_SINCE} or later"
            )
        if committer.epoch == member.epoch:
            return
        stale = committer.epoch > member.epoch or not all(
            self._has_since(member, tp, committer.epoch) for tp in committer.partitions
        )
        if stale and committer.transactional:
            raise errors.IllegalGenerationError
        if stale:
            raise errors.StaleMemberEpochError(
                f"The received member epoch {committer.epoch} is not the expected one, {member.epoch}, and the member "
                "did not have all these tasks in that epoch."
            )

    def _has_since(self, member: StreamsMember, tp: TopicPartition, epoch: int) -> bool:
        """Return whether a member has had the task that reads a partition since this epoch, or an earlier one."""
        reader = None if self.topology is None else self.topology.readers.get(tp.topic)
        if reader is None:
            return False
        received = member.assignment_epochs.get(TaskId(reader, tp.partition))
        return received is not None and received <= epoch

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise an error if the client names an unknown member, or not the member's epoch.

        A client that names no member and no epoch may read offsets.
        """
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.epoch:
            raise errors.StaleMemberEpochError(
                f"The received member epoch {epoch} is not the expected one, {member.epoch}."
            )

    def check_offset_delete(self) -> None:
        """Do nothing: offsets of topics that the topology does not read can always be deleted."""

    def retained_since(self, commit_ms: int) -> int | None:
        return commit_ms

    def next_deadline(self) -> float:
        return min(next_timeout(self.timers), self.transient.delayed_until)
