"""Groups that change their protocol while they have members: `group.consumer.migration.policy` (KIP-848).

If the policy allows it, a classic group is upgraded when a member joins it with ConsumerGroupHeartbeat. Its members
keep their assignment, and become classic members of a consumer group. If the policy allows it, a consumer group whose
other members are classic is downgraded when its last member with the new protocol leaves, times out, or is replaced by
a static member with the classic protocol.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.group.classic import records
from ottla.coordinator.group.classic.classic_group import ClassicGroup, ClassicGroupState, ClassicMember
from ottla.coordinator.group.classic.classic_groups import ClassicGroups
from ottla.coordinator.group.classic.rebalance import fail_waiting_members
from ottla.coordinator.group.classic.subscriptions import CONSUMER, assignment_bytes
from ottla.coordinator.group.common.consumer_member import Assignment, Classic, ConsumerMember
from ottla.coordinator.group.common.consumer_topics import partitions_by_name
from ottla.coordinator.group.consumer import consumer_records
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult
from ottla.errors import GroupIdNotFoundError, MalformedMessageError, RebalanceInProgressError
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.protocol.versioned import decode_versioned

UPGRADE_POLICIES = ("bidirectional", "upgrade")
DOWNGRADE_POLICIES = ("bidirectional", "downgrade")


class GroupMigration:
    """Decides whether a group may change its protocol, and creates the group that replaces it."""

    def __init__(
        self, config: BrokerConfig, clock: Clock, image: Callable[[], ClusterImage], groups: ClassicGroups
    ) -> None:
        self._config = config
        self._clock = clock
        self._image = image
        self._groups = groups

    def interrupt(self, group: ClassicGroup, result: CoordinatorResult) -> None:
        """Fail pending JoinGroup and SyncGroup requests of a group that is upgraded, so that the members join again."""
        fail_waiting_members(group, RebalanceInProgressError(), result)

    def upgrade(self, group: ClassicGroup) -> tuple[ConsumerGroup, list[CoordinatorRecord]]:
        """Return the consumer group that replaces a classic one, and the records of the change.

        Raises GroupIdNotFoundError if the group cannot be upgraded.
        """
        written = [records.group_tombstone(group.id)]
        new = ConsumerGroup(group.id)
        if group.state is ClassicGroupState.EMPTY:  # pending member ids may join the new group, too
            return new, written
        if self._config.group_consumer_migration_policy not in UPGRADE_POLICIES or group.protocol_type != CONSUMER:
            raise GroupIdNotFoundError(f"Group {group.id} is not a consumer group.")
        if len(group.members) > self._config.group_consumer_max_size:
            raise GroupIdNotFoundError(f"Group {group.id} has too many members for a consumer group.")
        try:
            members = [self._consumer_member(group, member) for member in group.members.values()]
        except MalformedMessageError:
            raise GroupIdNotFoundError(
                f"Cannot upgrade classic group {group.id} to consumer group because the embedded consumer protocol "
                "is malformed."
            ) from None
        new.epoch = new.target_epoch = group.generation
        for member in members:
            new.put(member)
            new.targets[member.id] = member.assigned
        return new, written + self._records(new)

    def can_downgrade(self, group: ConsumerGroup, leaving: set[str]) -> bool:
        """Return whether the group may become a classic group when these members leave.

        At least one and at most group.max.size members must remain, all of them classic, and the migration policy must
        allow it.
        """
        allowed = self._config.group_consumer_migration_policy in DOWNGRADE_POLICIES
        left = len(group.members.keys() - leaving)
        return allowed and left <= self._config.group_max_size and group.all_classic_but(leaving)

    def downgrade(self, group: ConsumerGroup, leaving: set[str], result: CoordinatorResult) -> None:
        """Add the classic group that replaces this one, and the records of the change, to `result`.

        The classic group rebalances if any members are leaving.
        """
        new = self.classic_group(group, leaving)
        result.records += [*consumer_records.group_tombstones(group), records.group_record(new, self._clock.now_ms())]
        result.replacement = new
        if leaving:
            self._groups.rebalance(
                new, result, f"{len(leaving)} members have left, and the others use the classic protocol"
            )

    def classic_group(self, group: ConsumerGroup, leaving: set[str]) -> ClassicGroup:
        """Return the classic group of the remaining members, with their targets as their assignments."""
        new = ClassicGroup(group.id, state=ClassicGroupState.STABLE, generation=group.epoch, protocol_type=CONSUMER)
        for member in group.members.values():
            if member.id not in leaving:
                new.add(self._classic_member(member))
        new.protocol = new.choose_protocol()
        for classic in new.members.values():
            target = group.targets.get(classic.id, frozenset())
            classic.assignment = assignment_bytes(target, classic.protocols[new.protocol], self._image())
        return new

    def _classic_member(self, member: ConsumerMember) -> ClassicMember:
        assert member.classic is not None
        session = member.classic.session_timeout_ms / 1000
        classic = ClassicMember(
            id=member.id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout=session,
            rebalance_timeout=member.rebalance_timeout_ms / 1000 if member.rebalance_timeout_ms >= 0 else session,
            protocols=dict(member.classic.protocols),
            synced=True,
        )
        classic.touch(self._clock.monotonic())
        return classic

    def _consumer_member(self, group: ClassicGroup, member: ClassicMember) -> ConsumerMember:
        chosen = group.protocol if group.protocol in member.protocols else next(iter(member.protocols))
        subscription = decode_versioned(ConsumerProtocolSubscription, member.protocols[chosen or ""])
        return ConsumerMember(
            id=member.id,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            topics=frozenset(subscription.topics),
            rebalance_timeout_ms=round(member.rebalance_timeout * 1000),
            classic=Classic(round(member.session_timeout * 1000), tuple(member.protocols.items())),
            epoch=group.generation,
            previous_epoch=group.generation,
            assigned=self._assigned(member),
        )

    def _assigned(self, member: ClassicMember) -> Assignment:
        if not member.assignment:
            return frozenset()
        assignment = decode_versioned(ConsumerProtocolAssignment, member.assignment)
        return partitions_by_name(assignment.assigned_partitions, self._image())

    def _records(self, group: ConsumerGroup) -> list[CoordinatorRecord]:
        members = group.members.values()
        return [
            *(consumer_records.member_record(group.id, member) for member in members),
            consumer_records.epoch_record(group.id, group.epoch, group.metadata_hash),
            *(consumer_records.target_record(group.id, member.id, group.targets[member.id]) for member in members),
            consumer_records.target_epoch_record(group.id, group.target_epoch, self._clock.now_ms()),
            *(consumer_records.current_record(group.id, member) for member in members),
        ]
