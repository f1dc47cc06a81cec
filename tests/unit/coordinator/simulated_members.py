"""Simulated members of both protocols; a step is one request, and a member relies on its last response."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.unit.coordinator.consumer_world import CLIENT, World, assigned, error, topic_id

from ottla.errors import KafkaError
from ottla.model import TopicIdPartition
from ottla.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ottla.protocol.versioned import decode_versioned, encode_versioned

Parts = dict[str, list[int]]
NOT_COORDINATOR = "NOT_COORDINATOR"


def partitions(parts: Parts) -> set[TopicIdPartition]:
    return {TopicIdPartition(topic_id(t), p) for t, numbers in parts.items() for p in numbers}


class SimulatedConsumerMember:
    """A member of the consumer protocol. It may lose responses, and delays revocations."""

    def __init__(self, world: World, member_id: str, r: Random, topics: list[str], regex: str) -> None:
        self.world, self.id, self.r, self.topics, self.regex = world, member_id, r, topics, regex
        self.epoch = 0
        self.reads: Parts = {}
        self.assignment: Parts | None = None
        self.full = False

    def step(self, *, lossy: bool) -> None:
        if self.assignment is not None and not (lossy and self.r.random() < 0.4):
            self.reads, self.assignment = self.assignment, None
        more: dict[str, Any] = {}
        if self.epoch == 0 or self.full:
            more = {"rebalance_timeout_ms": 8000, "subscribed_topic_names": self.topics}
            more |= {"subscribed_topic_regex": self.regex}
        response = self.world.heartbeat(self.id, self.epoch, self.reads, **more)
        if lossy and self.r.random() < 0.15:
            # The response was lost: it sends a full request, to get a full response. Partitions that it has not started
            # to read are dropped, as the broker may have seen that it does not read them
            self.full, self.assignment = True, None
            return
        self.full = False
        if response.error_code:
            assert error(response) in ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "GROUP_ID_NOT_FOUND"), error(
                response
            )
            self.epoch, self.reads, self.assignment = 0, {}, None
            return
        assert response.member_epoch >= self.epoch, "the epoch decreased"
        self.epoch = response.member_epoch
        assignment = assigned(response)
        self.assignment = assignment if assignment is not None else self.assignment

    def leave(self) -> None:
        self.world.leave(self.id)
        self.epoch, self.reads, self.assignment = 0, {}, None


class SimulatedClassicMember:
    """A member of the classic protocol, with eager rebalances: it revokes everything before it joins again."""

    def __init__(self, world: World, r: Random, topics: list[str]) -> None:
        self.world, self.r, self.topics = world, r, topics
        self.id = ""
        self.generation = -1
        self.reads: Parts = {}
        self.pending_response: object = None
        self.leads = False
        self.sizes: dict[str, int] = {}

    def step(self, *, lossy: bool) -> None:
        if self.pending_response is not None:
            response = self.world.responses.get(self.pending_response)
            if response is not None:
                self.pending_response = None
                self._handle(response)
        elif self.generation < 0:
            self._join()
        elif self.leads and self.sizes != self._sizes():
            self._leave_generation("REBALANCE_IN_PROGRESS")  # the leader rejoins when topics have changed
        else:
            self._heartbeat()

    def leave(self) -> None:
        if self.pending_response is not None or not self.id:
            return
        token = object()
        request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=self.id)])
        self.world.apply(self.world.coordinator.leave(request, 3, token))
        self.id, self.generation, self.reads = "", -1, {}

    def _heartbeat(self) -> None:
        request = HeartbeatRequest(group_id="g", member_id=self.id, generation_id=self.generation)
        try:
            self.world.coordinator.heartbeat(request)
        except KafkaError as exception:
            self._leave_generation(exception.name)

    def _leave_generation(self, why: str) -> None:
        assert why in ("REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", NOT_COORDINATOR), why
        self.generation, self.reads = -1, {}
        if why == "UNKNOWN_MEMBER_ID":
            self.id = ""

    def _join(self) -> None:
        self.pending_response = object()
        metadata = encode_versioned(ConsumerProtocolSubscription(topics=self.topics), 1)
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=9_000,
            member_id=self.id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        self.world.apply(self.world.coordinator.join(request, 3, CLIENT, self.pending_response))

    def _handle(self, response: JoinGroupResponse | SyncGroupResponse) -> None:
        if response.error_code:
            self._leave_generation(error(response) or "")
        elif isinstance(response, JoinGroupResponse):
            self.id, self.generation = response.member_id, response.generation_id
            self._sync(response)
        else:
            decoded = decode_versioned(ConsumerProtocolAssignment, response.assignment) if response.assignment else None
            self.reads = {t.topic: t.partitions for t in decoded.assigned_partitions} if decoded is not None else {}

    def _sync(self, joined: JoinGroupResponse) -> None:
        self.pending_response = object()
        self.leads, self.sizes = joined.leader == joined.member_id, self._sizes()
        request = SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=self._assign(joined) if self.leads else [],
        )
        self.world.apply(self.world.coordinator.sync(request, self.pending_response))

    def _sizes(self) -> dict[str, int]:
        return {name: len(topic.partitions) for name, topic in self.world.image.topics.items()}

    def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Assign as the leader: the partitions of each topic to its readers in turn."""
        readers: dict[str, list[str]] = {}
        for m in joined.members:
            for topic in decode_versioned(ConsumerProtocolSubscription, m.metadata).topics:
                readers.setdefault(topic, []).append(m.member_id)
        shares: dict[str, Parts] = {m.member_id: {} for m in joined.members}
        for topic, ids in readers.items():
            topic_image = self.world.image.topics.get(topic)
            for p in range(len(topic_image.partitions) if topic_image else 0):
                shares[ids[p % len(ids)]].setdefault(topic, []).append(p)
        return [
            SyncGroupRequestAssignment(
                member_id=m,
                assignment=encode_versioned(
                    ConsumerProtocolAssignment(
                        assigned_partitions=[TopicPartitions(topic=t, partitions=p) for t, p in share.items()]
                    ),
                    1,
                ),
            )
            for m, share in shares.items()
        ]
