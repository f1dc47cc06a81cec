"""Deadlines of groups: what is due again at once does not keep the event loop from its other work."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import UUID

from tests.unit.coordinator.consumer_world import World

from ottla.clock import ManualClock
from ottla.cluster.image.cluster_image import PartitionImage, TopicImage
from ottla.coordinator.group.group_runtime import GroupRuntime
from ottla.coordinator.runtime.deadline_queue import DeadlineQueue
from ottla.model import CONSUMER_OFFSETS


async def test_a_deadline_in_the_past_waits_until_others_and_the_event_loop_had_their_turn() -> None:
    clock, calls = ManualClock(), list[str]()

    def on_deadline(key: str) -> None:
        calls.append(key)
        if key == "again":
            queue.schedule(key, clock.monotonic() - 1)
            queue.discard("discarded")

    queue = DeadlineQueue(clock, on_deadline)
    for key in ("again", "discarded", "once"):
        queue.schedule(key, clock.monotonic())
    queue.expire()
    assert calls == ["again", "once"]
    queue.expire()
    assert calls == ["again", "once", "again"]
    queue.close()
    await asyncio.sleep(0)


async def test_a_member_that_cannot_be_removed_because_the_append_fails_is_tried_again_later() -> None:
    world = World()
    world.join("m")
    topic = TopicImage(CONSUMER_OFFSETS, UUID(int=1), (PartitionImage(0, 0, (0,), (0,)),))
    image = replace(world.image, topics={**world.image.topics, CONSUMER_OFFSETS: topic})
    runtime = GroupRuntime(world.config, world.clock, lambda: image)
    for record in world.log:
        runtime.replay(record.key, record.value)
    attempts = list[object]()
    expire = runtime.groups.expire
    runtime.groups.expire = lambda group: attempts.append(group) or expire(group)  # type: ignore[method-assign,func-returns-value]
    runtime.on_loaded(0)
    world.clock.advance(100_000)
    for _ in range(3):
        runtime._deadlines.expire()  # the broker leads no partition, so that each append fails
    assert len(attempts) == 1
    world.clock.advance(501)
    runtime._deadlines.expire()
    assert len(attempts) == 2
    runtime.close()
