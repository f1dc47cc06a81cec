"""Simulated members of both protocols: each does one thing at a time and believes the last response."""

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


class NewMember:
    """A member of the consumer protocol. It may lose responses, and takes its time to revoke partitions."""

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
        answer = self.world.beat(self.id, self.epoch, self.reads, **more)
        if lossy and self.r.random() < 0.15:
            # The response was lost: it sends a full request, to get a full response. Partitions that it has not started
            # to read are dropped, as the broker may have seen that it does not read them
            self.full, self.assignment = True, None
            return
        self.full = False
        if answer.error_code:
            assert error(answer) in ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "GROUP_ID_NOT_FOUND"), error(answer)
            self.epoch, self.reads, self.assignment = 0, {}, None
            return
        assert answer.member_epoch >= self.epoch, "an epoch went back"
        self.epoch = answer.member_epoch
        assignment = assigned(answer)
        self.assignment = assignment if assignment is not None else self.assignment

    def leave(self) -> None:
        self.world.leave(self.id)
        self.epoch, self.reads, self.assignment = 0, {}, None


class OldMember:
    """A member of the classic protocol, with eager rebalances: it revokes everything before it joins again."""

    def __init__(self, world: World, r: Random, topics: list[str]) -> None:
        self.world, self.r, self.topics = world, r, topics
        self.id = ""
        self.generation = -1
        self.reads: Parts = {}
        self.waits: object = None
        self.leads = False
        self.sizes: dict[str, int] = {}

    def step(self, *, lossy: bool) -> None:
        if self.waits is not None:
            answer = self.world.answers.get(self.waits)
            if answer is not None:
                self.waits = None
                self._take(answer)
        elif self.generation < 0:
            self._join()
        elif self.leads and self.sizes != self._sizes():
            self._lose("REBALANCE_IN_PROGRESS")  # a leader watches the topics
        else:
            self._beat()

    def leave(self) -> None:
        if self.waits is not None or not self.id:
            return
        token = object()
        request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=self.id)])
        self.world.take(self.world.coordinator.leave(request, 3, token))
        self.id, self.generation, self.reads = "", -1, {}

    def _beat(self) -> None:
        request = HeartbeatRequest(group_id="g", member_id=self.id, generation_id=self.generation)
        try:
            self.world.coordinator.heartbeat(request)
        except KafkaError as numbers:
            self._lose(numbers.name)

    def _lose(self, why: str) -> None:
        assert why in ("REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", NOT_COORDINATOR), why
        self.generation, self.reads = -1, {}
        if why == "UNKNOWN_MEMBER_ID":
            self.id = ""

    def _join(self) -> None:
        self.waits = object()
        metadata = encode_versioned(ConsumerProtocolSubscription(topics=self.topics), 1)
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=9_000,
            member_id=self.id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        self.world.take(self.world.coordinator.join(request, 3, CLIENT, self.waits))

    def _take(self, answer: JoinGroupResponse | SyncGroupResponse) -> None:
        if answer.error_code:
            self._lose(error(answer) or "")
        elif isinstance(answer, JoinGroupResponse):
            self.id, self.generation = answer.member_id, answer.generation_id
            self._sync(answer)
        else:
            numbers = decode_versioned(ConsumerProtocolAssignment, answer.assignment) if answer.assignment else None
            self.reads = {t.topic: t.partitions for t in numbers.assigned_partitions} if numbers is not None else {}

    def _sync(self, joined: JoinGroupResponse) -> None:
        self.waits = object()
        self.leads, self.sizes = joined.leader == joined.member_id, self._sizes()
        request = SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=self._assign(joined) if self.leads else [],
        )
        self.world.take(self.world.coordinator.sync(request, self.waits))

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
            numbers = self.world.image.topics.get(topic)
            for p in range(len(numbers.partitions) if numbers else 0):
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
