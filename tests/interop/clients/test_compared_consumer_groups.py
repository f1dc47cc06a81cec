"""Random sequences of heartbeats of KIP-848 groups: errors, epochs and sizes of assignments are those of Kafka 4.3.1.

Kafka's node has group.consumer.assignment.interval.ms=0: by default it assigns at most once a second, and we at once.
Topics have a number of partitions that divides evenly, as it is chance (the hash of member ids) who gets one more in
Kafka. Two responses differ on purpose; a sequence ends there, since later responses would differ:

- A static member that joins again under its own member id, which only it can know, is accepted. Kafka rejects it with
  UNRELEASED_INSTANCE_ID, which Java clients take as fatal, until the session of its earlier life has timed out.
- A member that has revoked what it had to, and has to revoke more, gets the next epoch, so that commits from before
  are rejected. Kafka 4.3 leaves the epoch, as it remembers since when each partition has been assigned (KIP-1251).

A group's first epoch is 1 here, as in Kafka up to 4.2, and 2 in 4.3, which assigns later (KIP-1263) and so needs an
epoch of a group without an assignment. To clients an epoch means nothing but its order within the group.

Which partitions move is up to the assignor, too. So now and then a member gets a partition at once from one node and
waits for its owner with the other one; the sizes then differ for a moment, in few of the sequences.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

import pytest
from scripts import apache_kafka
from tests.interop.kafka_jars import prepare_node, server

from ottla import Broker, KafkaAdminClient, NewTopic
from ottla.errors import FencedMemberEpochError, UnreleasedInstanceIdError
from ottla.net.client.channel import Channel
from ottla.net.ports import free_port
from ottla.protocol.messages import consumer_group_heartbeat as m
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest

pytestmark = pytest.mark.interop

PARTITIONS = 12
SEQUENCES = 120
SECONDS = 30.0
JOINING, LEAVING, LEAVING_FOR_A_WHILE = 0, -1, -2
SAME, REJOINS, REVOKES_MORE, WAITS, FAULT = "same", "joins again", "revokes more", "waits", "fault"
FENCED, UNRELEASED = FencedMemberEpochError.code, UnreleasedInstanceIdError.code


class HeartbeatResult(NamedTuple):
    """The compared part of a response: error, member epoch relative to the group's first, and number of partitions."""

    error: int
    epoch: int
    size: int | None


class Step(NamedTuple):
    """One heartbeat of a member. `epoch_off`: by how much its epoch is wrong."""

    member: str
    instance: str | None
    kind: str
    epoch_off: int = 0
    full: bool = False
    silent: bool = False


class Node:
    """One of the two nodes, and the epochs and assignments that the members of one group have received from it."""

    def __init__(self, address: str, first_epoch: int) -> None:
        self.first_epoch = first_epoch
        self._host, _, self._port = address.rpartition(":")
        self._topic_id = UUID(int=0)
        with KafkaAdminClient(bootstrap_servers=address) as admin:
            admin.create_topics([NewTopic("t", PARTITIONS, 1)])
            admin.wait_for_topics(["t"])
            self._topic_id = admin.describe_topics(["t"])["t"].topic_id
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, list[int]] = {}

    async def connect(self) -> None:
        """Connect, and wait until the group coordinator is available."""
        self._channel = Channel(asyncio.get_running_loop(), self._host, int(self._port), client_id="c")
        await self._channel.connect()
        for group in ("warm-up", *(f"g{seed}" for seed in range(SEQUENCES))):
            async with asyncio.timeout(SECONDS):
                while (await self._actual(group)) or (await self._describe(group)):
                    await asyncio.sleep(0.1)

    async def _actual(self, group: str) -> int:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        return int((await self._channel.send(request, 4, SECONDS)).coordinators[0].error_code)

    async def _describe(self, group: str) -> bool:
        beat = m.ConsumerGroupHeartbeatRequest(group_id=group, member_id="x", member_epoch=LEAVING)
        return (await self._channel.send(beat, 1, SECONDS)).error_code in (14, 15, 16)

    async def beat(self, group: str, step: Step, epoch: int) -> HeartbeatResult:
        """Send a heartbeat, and apply the response to the member's state."""
        member, joins, full = step.member, epoch == JOINING, step.full
        owned = [] if joins else self.owned.get(member, [])
        topics = [m.TopicPartitions(topic_id=self._topic_id, partitions=owned)] if owned else []
        request = m.ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            instance_id=step.instance,
            rebalance_timeout_ms=60_000 if joins or full else -1,
            subscribed_topic_names=["t"] if joins or full else None,
            topic_partitions=None if epoch < 0 or (step.silent and not joins) else topics,
        )
        response = await self._channel.send(request, 1, SECONDS)
        if response.error_code == 0:
            self.epochs[member] = response.member_epoch
            if response.member_epoch < 0:
                self.owned[member] = []
            elif response.assignment is not None:
                self.owned[member] = [p for t in response.assignment.topic_partitions for p in t.partitions]
        elif response.error_code == FENCED:
            self.epochs[member], self.owned[member] = JOINING, []
        size = (
            None
            if response.assignment is None
            else sum(len(t.partitions) for t in response.assignment.topic_partitions)
        )
        epochs = response.member_epoch - self.first_epoch if response.member_epoch > 0 else response.member_epoch
        return HeartbeatResult(response.error_code, epochs, size)


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Addresses of Apache Kafka and of Ottla."""
    if reason := apache_kafka.missing():
        pytest.skip(reason)
    folder, port = tmp_path_factory.mktemp("kafka"), free_port(in_a_row=2)
    command = prepare_node(folder, port, configs={"group.consumer.assignment.interval.ms": 0})
    with server(command, port, folder / "out.txt", kill=True), Broker({"offsets.topic.num.partitions": 5}) as ours:
        yield f"127.0.0.1:{port}", ours.bootstrap_servers


def steps(seed: int) -> list[Step]:
    """Return a sequence for up to four members, some of them static, and others that claim their instance ids."""
    draw = random.Random(seed)
    instances: dict[str, str | None] = {name: f"i-{name}" if draw.random() < 0.4 else None for name in "abcd"}
    result = []
    for _ in range(draw.randint(8, 24)):
        name = draw.choice("abcd")
        kind = draw.choices(["beat", "leave", "for a while", "other", "join"], [12, 2, 2, 1, 1])[0]
        member = f"{name}2" if kind == "other" and instances[name] else name
        off = draw.choice([-1, 1, 5]) if draw.random() < 0.05 else 0
        result.append(Step(member, instances[name], kind, off, draw.random() < 0.3, draw.random() < 0.2))
    return result


async def compare(seed: int, kafka: Node, ours: Node) -> tuple[str, str]:
    """Return the kind of the first difference, and the sequence up to it."""
    for node in (kafka, ours):
        node.epochs, node.owned = {}, {}
    log = []
    for step in steps(seed):
        results = []
        for node in (kafka, ours):
            existing = node.epochs.get(step.member, JOINING)
            epoch = {"leave": LEAVING, "for a while": LEAVING_FOR_A_WHILE}.get(step.kind, max(existing, JOINING))
            if step.kind in ("other", "join"):
                epoch = JOINING
            elif step.kind == "beat" and epoch > 0:
                epoch += abs(step.epoch_off) if epoch == node.first_epoch else step.epoch_off
            results.append(await node.beat(f"g{seed}", step, epoch))
        log.append((step, *results))
        if results[0] != results[1]:
            return _kind(*results), "\n".join(map(str, log))
    return SAME, ""


def _kind(kafka: HeartbeatResult, ours: HeartbeatResult) -> str:
    if kafka.error == UNRELEASED and ours.error == 0:
        return REJOINS
    if kafka.error == ours.error == 0 and kafka.size == ours.size and ours.epoch == kafka.epoch + 1:
        return REVOKES_MORE
    return WAITS if kafka[:2] == ours[:2] else FAULT


def test_random_heartbeats_get_the_responses_of_kafka(addresses: tuple[str, str]) -> None:
    kafka, ours = Node(addresses[0], 2), Node(addresses[1], 1)

    async def compare_all() -> list[tuple[str, str]]:
        for node in (kafka, ours):
            await node.connect()
        return [await compare(seed, kafka, ours) for seed in range(SEQUENCES)]

    actual = asyncio.run(compare_all())
    faults = [f"seed {seed}:\n{text}" for seed, (kind, text) in enumerate(actual) if kind == FAULT]
    assert not faults, "\n\n".join(faults)
    counts = Counter(kind for kind, _ in actual)
    assert counts[WAITS] <= SEQUENCES // 20, counts
    assert counts[SAME] >= SEQUENCES // 2, counts
