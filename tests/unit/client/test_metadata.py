"""Client metadata: refreshes, leader epochs and topics in use."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.client.core.metadata import Cluster, Metadata
from ottla.clock import ShiftedClock
from ottla.errors import BrokerConnectionError, InvalidTopicError, KafkaError, KafkaTimeoutError
from ottla.model import TopicPartition
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def response(*topics: MetadataResponseTopic) -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=n, host=f"h{n}", port=9092) for n in (1, 2)]
    return MetadataResponse(brokers=brokers, controller_id=1, cluster_id="c", topics=list(topics))


def topic(name: str, *partitions: tuple[int, int], error: int = 0) -> MetadataResponseTopic:
    """Return a topic whose partitions have these (leader, epoch)."""
    return MetadataResponseTopic(
        name=name,
        error_code=error,
        partitions=[
            MetadataResponsePartition(partition_index=i, leader_id=leader, leader_epoch=epoch)
            for i, (leader, epoch) in enumerate(partitions)
        ],
    )


class ScriptedSender:
    """Returns or raises the responses of the test in order, and repeats the last one."""

    def __init__(self, *responses: MetadataResponse | KafkaError) -> None:
        self.responses = list(responses)
        self.requests: list[MetadataRequest] = []

    async def send_any(self, request: MetadataRequest) -> MetadataResponse:
        self.requests.append(request)
        result = self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]
        if isinstance(result, KafkaError):
            raise result
        return result


def run(sender: ScriptedSender, test: Callable[[Metadata], Awaitable[None]], **options: Any) -> None:
    async def run_and_close() -> None:
        settings: dict[str, Any] = {
            "max_age_ms": 60_000,
            "retry_backoff_ms": 5,
            "retry_backoff_max_ms": 20,
            "allow_auto_create": True,
        }
        metadata = Metadata(sender, **{**settings, **options})
        metadata.start()
        try:
            await test(metadata)
        finally:
            await metadata.close()

    asyncio.run(run_and_close())


T0 = TopicPartition("t", 0)


def test_wait_for_topic_retries_until_the_topic_exists() -> None:
    sender = ScriptedSender(response(topic("t", error=5)), BrokerConnectionError("away"), response(topic("t", (1, 0))))

    async def test(metadata: Metadata) -> None:
        info = await metadata.wait_for_topic("t", 5)
        assert len(info.partitions) == 1
        assert metadata.cluster.leader(T0) == 1

    run(sender, test)
    assert len(sender.requests) == 3
    assert [t.name for t in sender.requests[0].topics or ()] == ["t"]


def test_wait_for_topic_ends_at_its_timeout_with_the_last_error() -> None:
    async def test(metadata: Metadata) -> None:
        begin = time.monotonic()
        with pytest.raises(KafkaTimeoutError, match=r"^topic 't' is unknown after .*away"):
            await metadata.wait_for_topic("t", 0.1)
        assert time.monotonic() - begin < 1

    run(ScriptedSender(BrokerConnectionError("away")), test)


def test_wait_for_topic_raises_a_fatal_error_at_once() -> None:
    async def test(metadata: Metadata) -> None:
        with pytest.raises(InvalidTopicError, match="t!"):
            await metadata.wait_for_topic("t!", 60)

    run(ScriptedSender(response(topic("t!", error=17))), test)


def test_older_leader_epoch_is_ignored() -> None:
    sender = ScriptedSender(response(topic("t", (2, 5))), response(topic("t", (1, 4))), response(topic("t", (1, 6))))

    async def test(metadata: Metadata) -> None:
        await metadata.wait_for_topic("t", 5)
        await metadata.refresh(5)
        assert metadata.cluster.leader(T0) == 2
        await metadata.refresh(5)
        assert metadata.cluster.leader(T0) == 1

    run(sender, test)


def test_recreated_topic_starts_with_its_own_epochs() -> None:
    from uuid import UUID

    again = topic("t", (1, 0))
    again.topic_id = UUID(int=5)
    sender = ScriptedSender(response(topic("t", (2, 5))), response(again))

    async def test(metadata: Metadata) -> None:
        await metadata.wait_for_topic("t", 5)
        await metadata.refresh(5)
        assert metadata.cluster.leader(T0) == 1

    run(sender, test)


def test_leader_from_another_response_is_used_at_once() -> None:
    async def test(metadata: Metadata) -> None:
        await metadata.wait_for_topic("t", 5)
        assert metadata.leader_changed(T0, 2, 8)
        assert metadata.cluster.leader(T0) == 2
        assert not metadata.leader_changed(T0, 1, 8), "not newer"
        assert not metadata.leader_changed(T0, 9, 9), "the address of that broker is unknown"

    run(ScriptedSender(response(topic("t", (1, 7)))), test)


def test_newer_leader_epoch_of_an_offset_invalidates_the_leader() -> None:
    sender = ScriptedSender(response(topic("t", (1, 7))), response(topic("t", (1, 7))), response(topic("t", (2, 8))))

    async def test(metadata: Metadata) -> None:
        await metadata.wait_for_topic("t", 5)
        assert not metadata.update_last_seen_epoch(T0, 7)
        assert metadata.update_last_seen_epoch(T0, 8)
        assert metadata.cluster.leader(T0) == -1
        assert not metadata.update_last_seen_epoch(T0, 8), "it is recorded already"
        while metadata.cluster.leader(T0) < 0:
            await metadata.refresh(5)
        assert metadata.cluster.leader(T0) == 2
        assert metadata.update_last_seen_epoch(T0, 9)
        assert not metadata.leader_changed(T0, 1, 8)
        assert metadata.leader_changed(T0, 1, 9), "a response may have the leader of the last seen epoch"
        assert metadata.cluster.leader(T0) == 1

    run(sender, test)


def test_partition_without_a_leader_triggers_a_metadata_refresh() -> None:
    sender = ScriptedSender(response(topic("t", (-1, 0))), response(topic("t", (-1, 0))), response(topic("t", (2, 1))))

    async def test(metadata: Metadata) -> None:
        await metadata.wait_for_topic("t", 5)
        while metadata.cluster.leader(T0) != 2:
            await metadata.next_update()

    run(sender, test)


def test_metadata_is_refreshed_by_age() -> None:
    sender = ScriptedSender(response(topic("t", (1, 0))))

    async def test(metadata: Metadata) -> None:
        await metadata.wait_for_topic("t", 5)
        version = metadata.version
        while metadata.version < version + 2:
            await metadata.next_update()

    run(sender, test, max_age_ms=20)


@pytest.mark.option("metadata.max.idle.ms")
def test_unused_topic_is_dropped() -> None:
    sender = ScriptedSender(response(topic("t", (1, 0))))

    async def test(metadata: Metadata) -> None:
        await metadata.wait_for_topic("t", 5)
        await asyncio.sleep(0.02)
        metadata.touch("u")
        await metadata.refresh(5)

    run(sender, test, topic_idle_ms=10)
    assert [t.name for t in sender.requests[-1].topics or ()] == ["u"]


def test_added_topics_do_not_renew_the_use_of_the_others() -> None:
    sender, clock = ScriptedSender(response(topic("t", (1, 0)))), ShiftedClock()

    async def test(metadata: Metadata) -> None:
        metadata.add_topics(["t", "v"])
        clock.advance(61)
        metadata.add_topics(["u", "v"])
        await metadata.refresh(5)

    run(sender, test, topic_idle_ms=60_000, clock=clock)
    assert [sorted(t.name or "" for t in r.topics or ()) for r in sender.requests][-1] == ["u", "v"]


def test_listeners_get_every_snapshot() -> None:
    snapshots: list[Cluster] = []

    async def test(metadata: Metadata) -> None:
        metadata.listeners.append(snapshots.append)
        await metadata.refresh(5)
        await metadata.refresh(5)

    run(ScriptedSender(response()), test)
    assert len(snapshots) == 2
    assert snapshots[0].nodes[2].host == "h2"
    assert snapshots[0].controller_id == 1


def test_new_topic_is_requested_without_the_backoff_between_refreshes() -> None:
    """The backoff separates repeated requests; it does not delay the first one for a topic."""
    sender = ScriptedSender(response(), response(topic("t", (1, 0))))

    async def test(metadata: Metadata) -> None:
        await metadata.refresh(5)
        await metadata.wait_for_topic("t", 5)

    run(sender, test, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000)
    assert len(sender.requests) == 2


def test_first_retry_of_a_failed_refresh_waits_for_retry_backoff_ms(monkeypatch: pytest.MonkeyPatch) -> None:
    away = BrokerConnectionError("away")
    sender = ScriptedSender(away, away, away, response(topic("t", (1, 0))))
    pauses: list[float] = []

    async def pause(_metadata: Metadata, seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(Metadata, "_pause", pause)

    async def test(metadata: Metadata) -> None:
        await metadata.wait_for_topic("t", 5)

    run(sender, test, retry_backoff_ms=100, retry_backoff_max_ms=1000)
    assert pauses[:3] == [pytest.approx(seconds, rel=0.21) for seconds in (0.1, 0.2, 0.4)]
