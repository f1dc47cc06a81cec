"""The rebalance of a classic group, from its start to the new assignment.

prepare ──all joined, or timeout──▶ a new generation ──the leader's sync──▶ assign

Without I/O: responses and records go into the result.
"""

from __future__ import annotations

import logging
from typing import Final

from ottla import errors
from ottla.clock import Clock
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.group.classic import records
from ottla.coordinator.group.classic.classic_group import ClassicGroup, ClassicGroupState, ClassicMember
from ottla.coordinator.runtime.deadline_queue import NEVER
from ottla.coordinator.runtime.result import CoordinatorResult
from ottla.logs import RateLimitFilter, listed
from ottla.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.sync_group import SyncGroupResponse

log = logging.getLogger("ottla.coordinator.group")
log.addFilter(RateLimitFilter(per_window=500))

REPORT_SECONDS: Final = 10.0
"""Time in seconds after which a log line names the members that a rebalance waits for."""
MAX_LISTED: Final = 5


class ClassicRebalance:
    """The rebalances of all classic groups of one coordinator."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock

    def prepare(self, group: ClassicGroup, result: CoordinatorResult, reason: str) -> None:
        """Start a rebalance: all members have to join again."""
        log.info(
            "Rebalancing group %s: generation=%d members=%d: %s", group.id, group.generation, len(group.members), reason
        )
        now = self._clock.monotonic()
        for member in group.members.values():
            member.synced = False
            if member.awaiting_sync is not None:
                code = errors.code_of(errors.RebalanceInProgressError())
                result.respond(member.awaiting_sync, SyncGroupResponse(error_code=code, protocol_name=None))
                member.awaiting_sync = None
                group.touch(member, now)
        group.sync_deadline = NEVER
        group.initial = group.state is ClassicGroupState.EMPTY and self._config.group_initial_rebalance_delay_ms > 0
        group.rebalance_began = now
        group.joined_since = False
        group.report_at = now + REPORT_SECONDS
        wait = group.rebalance_timeout
        if group.initial:
            wait = min(wait, self._config.group_initial_rebalance_delay_ms / 1000)
        group.deadline = now + wait
        group.transition_to(ClassicGroupState.PREPARING)

    def try_complete(self, group: ClassicGroup, result: CoordinatorResult) -> None:
        """Complete the rebalance if all members have joined or its deadline has passed.

        With `group.initial.rebalance.delay.ms`, the first rebalance of an empty group waits for its deadline even if
        all members have joined, and new members extend it. Members that have not joined are removed, except static
        ones.
        """
        now = self._clock.monotonic()
        if group.initial:
            if now < group.deadline:
                return
            if group.joined_since and self._extend_initial_delay(group, now):
                return
        elif not group.all_joined and now < group.deadline:
            return
        group.initial = False
        timeout = group.deadline - group.rebalance_began
        for member in [m for m in group.members.values() if m.awaiting_join is None]:
            if member.instance_id is None:
                log.info(
                    "Removed member %s from group %s: it has not joined again within the rebalance timeout of %g s",
                    member.id,
                    group.id,
                    timeout,
                )
                group.remove(member.id)
        self._complete(group, result)

    def _extend_initial_delay(self, group: ClassicGroup, now: float) -> bool:
        """Extend the initial delay, at most up to the rebalance timeout. Return False if the rebalance timeout has
        passed.
        """
        left = group.rebalance_began + group.rebalance_timeout - now
        if left <= 0:
            return False
        group.joined_since = False
        group.deadline = now + min(left, self._config.group_initial_rebalance_delay_ms / 1000)
        return True

    def _complete(self, group: ClassicGroup, result: CoordinatorResult) -> None:
        """Start a new generation, and answer the pending JoinGroup requests.

        If no member has joined again, because only static ones remain, wait for another rebalance timeout instead. Only
        the response to the leader lists all members.
        """
        now = self._clock.monotonic()
        joined = group.awaiting_join
        if group.members and not joined:
            # only static members remain, and none has joined again yet: wait for them
            group.deadline = now + group.rebalance_timeout
            return
        group.generation += 1
        group.deadline = group.report_at = NEVER
        if not joined:
            group.protocol = group.leader = None
            group.empty_since_ms = self._clock.now_ms()
            group.transition_to(ClassicGroupState.EMPTY)
            log.info("Group %s is empty: generation=%d", group.id, group.generation)
            result.records.append(records.group_record(group, self._clock.now_ms()))
            return
        if group.leader is None or group.members[group.leader].awaiting_join is None:
            group.leader = joined[0].id
        group.protocol = group.choose_protocol()
        group.transition_to(ClassicGroupState.COMPLETING)
        group.report_at = now + REPORT_SECONDS
        group.sync_deadline = now + group.rebalance_timeout
        log.info(
            "Group %s has a new generation: generation=%d members=%d protocol=%s leader=%s after %.1f s",
            group.id,
            group.generation,
            len(group.members),
            group.protocol,
            group.leader,
            now - group.rebalance_began,
        )
        for member in joined:
            assert member.awaiting_join is not None
            result.respond(member.awaiting_join, join_response(group, member))
            member.awaiting_join = None
            member.join_deadline = NEVER
            group.touch(member, now)

    def assign(self, group: ClassicGroup, assignments: dict[str, bytes], result: CoordinatorResult) -> None:
        """Apply the leader's assignment, and answer the pending SyncGroup requests."""
        now = self._clock.monotonic()
        group.transition_to(ClassicGroupState.STABLE)
        group.report_at = NEVER
        for member in group.members.values():
            member.assignment = assignments.get(member.id, b"")
        result.records.append(records.group_record(group, self._clock.now_ms()))
        for member in group.members.values():
            if member.awaiting_sync is not None:
                result.respond(member.awaiting_sync, sync_response(group, member))
                member.awaiting_sync = None
                group.touch(member, now)

    def report(self, group: ClassicGroup) -> None:
        """Log which members a rebalance waits for, if there are any. Kafka's protocol does not report them."""
        group.report_at = NEVER
        seconds = self._clock.monotonic() - group.rebalance_began
        if group.state is ClassicGroupState.COMPLETING and group.leader is not None:
            leader = group.members[group.leader]
            log.warning(
                "The rebalance of group %s has taken %.0f s and waits for the assignment from its leader %s (%s). A "
                "leader that does not send it within the rebalance timeout of %g s is removed from the group.",
                group.id,
                seconds,
                leader.id,
                leader.client_host,
                group.rebalance_timeout,
            )
            return
        absent = [f"{m.id} ({m.client_host})" for m in group.members.values() if m.awaiting_join is None]
        if group.state is ClassicGroupState.PREPARING and absent:
            log.warning(
                "The rebalance of group %s has taken %.0f s and waits for %d of %d members to join again: %s. A "
                "consumer joins in poll(). Dynamic members that have not joined within the rebalance timeout of %g s "
                "(max.poll.interval.ms) are removed.",
                group.id,
                seconds,
                len(absent),
                len(group.members),
                listed(absent, MAX_LISTED),
                group.deadline - group.rebalance_began,
            )

    def remove(self, group: ClassicGroup, member: ClassicMember, result: CoordinatorResult, reason: str) -> None:
        """Remove a member, and start or continue a rebalance of the others. `reason`: for the log.

        The member's pending requests fail with UnknownMemberIdError.
        """
        if group.members.get(member.id) is not member:
            return  # another removal has completed a rebalance, which has removed this member, too
        unknown = errors.UnknownMemberIdError()
        if member.awaiting_join is not None:
            result.respond(member.awaiting_join, join_error(unknown, member.id))
        if member.awaiting_sync is not None:
            result.respond(
                member.awaiting_sync, SyncGroupResponse(error_code=errors.code_of(unknown), protocol_name=None)
            )
        group.remove(member.id)
        if group.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING):
            self.prepare(group, result, f"member {member.id} ({member.client_host}) {reason}")
        else:
            log.info(
                "Removed member %s (%s) from group %s, which is rebalancing: the member %s",
                member.id,
                member.client_host,
                group.id,
                reason,
            )
        if group.state is ClassicGroupState.PREPARING:
            if not group.members and not group.pending:
                group.initial = False
            self.try_complete(group, result)


def fail_waiting_members(group: ClassicGroup, error: errors.KafkaError, result: CoordinatorResult) -> None:
    """Answer all pending JoinGroup and SyncGroup requests of a group with an error."""
    for member in group.members.values():
        if member.awaiting_join is not None:
            result.respond(member.awaiting_join, join_error(error, member.id))
        if member.awaiting_sync is not None:
            result.respond(
                member.awaiting_sync, SyncGroupResponse(error_code=errors.code_of(error), protocol_name=None)
            )
        member.awaiting_join = member.awaiting_sync = None


def join_error(error: errors.KafkaError, member_id: str) -> JoinGroupResponse:
    """Return the response to a JoinGroup that has failed."""
    if isinstance(error, errors.MemberIdRequiredError):
        member_id = error.message  # the id to join with
    return JoinGroupResponse(error_code=errors.code_of(error), member_id=member_id, protocol_name="", leader="")


def join_response(group: ClassicGroup, member: ClassicMember) -> JoinGroupResponse:
    """Return the response to a JoinGroup. Only the response to the leader lists the members."""
    leads = group.leader == member.id
    members = []
    if leads:
        members = [
            JoinGroupResponseMember(
                member_id=m.id, group_instance_id=m.instance_id, metadata=m.protocols.get(group.protocol or "", b"")
            )
            for m in group.members.values()
        ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        member_id=member.id,
        members=members,
    )


def sync_response(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    """Return the response to a SyncGroup, with the member's assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )
