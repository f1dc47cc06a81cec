"""An update of a streams group: changes are applied to a copy of the group, and collected as records.

Kafka's `TargetAssignmentBuilder` and `CurrentAssignmentBuilder` of streams groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ottla.coordinator.group.common.group_update import GroupUpdate, reconcile
from ottla.coordinator.group.streams import streams_group_records as records
from ottla.coordinator.group.streams.configured_topology import ConfiguredTopology
from ottla.coordinator.group.streams.sticky_task_assignor import TaskMemberSpec, assign
from ottla.coordinator.group.streams.streams_group import StreamsGroup, StreamsMember
from ottla.coordinator.group.streams.streams_topology import StreamsTopology
from ottla.coordinator.group.streams.tasks import NO_TASKS, Task, TaskRole, Tasks, ids_of

STANDBY_REPLICAS = "num.standby.replicas"
"""Kafka's name of the assignor config that is stored in the record of the group's epoch."""


class StreamsGroupUpdate(GroupUpdate[StreamsGroup]):
    """An update of a streams group. `group` is the group with the changes so far."""

    def set_member(self, member: StreamsMember) -> bool:
        """Set the description of a member. Return whether it differs from before."""
        old = self.group.members.get(member.id)
        if old is not None and old.description == member.description:
            return False
        self._write(records.member_record(self.group.id, member))
        self.group.put(member)
        return True

    def set_topology(self, topology: StreamsTopology) -> None:
        self._write(records.topology_record(self.group.id, topology))
        self.group.topology = topology

    def remove(self, member_id: str) -> None:
        self._write(*records.member_tombstones(self.group.id, member_id))
        self.group.remove(member_id)
        self.group.targets.pop(member_id, None)

    def bump_epoch(
        self,
        metadata_hash: int | None = None,
        validated_topology_epoch: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Increment the group epoch, which requires a new target assignment. None leaves a value unchanged."""
        group = self.group
        new_hash = group.metadata_hash if metadata_hash is None else metadata_hash
        validated = group.validated_topology_epoch if validated_topology_epoch is None else validated_topology_epoch
        new_configs = group.assignor_configs if configs is None else configs
        self._write(records.epoch_record(group.id, group.epoch + 1, new_hash, validated, new_configs))
        group = self.group
        group.epoch, group.metadata_hash = group.epoch + 1, new_hash
        group.validated_topology_epoch, group.assignor_configs = validated, new_configs

    def set_targets(self, configured: ConfiguredTopology) -> None:
        """Compute and record the target assignment for the current epoch.

        It has no tasks if the topology is not ready.
        """
        group = self.group
        specs = {m.id: TaskMemberSpec(m.process_id, group.targets.get(m.id, NO_TASKS)) for m in group.members.values()}
        if configured.is_ready:
            targets = assign(specs, configured.subtopologies, int(group.assignor_configs.get(STANDBY_REPLICAS, "0")))
        else:
            targets = dict.fromkeys(specs, NO_TASKS)
        for member_id, target in targets.items():
            if self.group.targets.get(member_id) != target:
                self._write(records.target_record(group.id, member_id, target))
                self.group.targets[member_id] = target
        self._write(records.target_epoch_record(group.id, self.group.epoch, self._now_ms))
        self.group.target_epoch, self.group.assigned_at_ms = self.group.epoch, self._now_ms

    def advance(self, member_id: str, target: Tasks, owned: Tasks | None) -> StreamsMember:
        """Move a member towards its target. Return the member."""
        group = self.group
        member = group.members[member_id]

        def is_free(task: Task) -> bool:
            return group.is_free(task, member)

        after = reconcile(member, group.target_epoch, target, is_free, owned)
        if after is member:
            return member
        active = ids_of(after.holds, TaskRole.ACTIVE)
        epochs = {task: member.assignment_epochs.get(task, after.epoch) for task in sorted(active)}
        after = replace(after, assignment_epochs=epochs)
        self._write(records.current_record(group.id, after))
        self.group.put(after)
        return after
