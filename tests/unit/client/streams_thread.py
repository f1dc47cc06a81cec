"""A member of a streams group without Kafka Streams: it joins a group and reports its tasks as running."""

from __future__ import annotations

import time
import uuid
from types import TracebackType
from typing import Any

from ottla import ConfigResource, ConfigResourceType, KafkaAdminClient
from ottla.net.client.blocking_channel import BlockingChannel
from ottla.protocol.messages import streams_group_heartbeat as m
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest

SECONDS = 30


def word_count(group: str, topic: str) -> m.Topology:
    """A topology with a repartition topic and a store."""
    repartition = f"{group}-words-repartition"
    return m.Topology(
        subtopologies=[
            m.Subtopology(subtopology_id="0", source_topics=[topic], repartition_sink_topics=[repartition]),
            m.Subtopology(
                subtopology_id="1",
                repartition_source_topics=[m.TopicInfo(name=repartition)],
                state_changelog_topics=[m.TopicInfo(name=f"{group}-counts-changelog")],
            ),
        ]
    )


class StreamsThread:
    """A member. `tasks` are the partitions of its active tasks by subtopology."""

    def __init__(self, servers: str, group: str, topic: str) -> None:
        host, _, port = servers.rpartition(":")
        self.channel = BlockingChannel(host, int(port))
        self.group, self.topic = group, topic
        self.member_id = str(uuid.uuid4())
        self.epoch = 0
        self.tasks: dict[str, list[int]] = {}
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            config = ConfigResource(ConfigResourceType.GROUP, group)
            admin.alter_configs({config: {"streams.initial.rebalance.delay.ms": "0"}})

    def __enter__(self) -> StreamsThread:
        self._until(lambda: self._send(FindCoordinatorRequest(coordinator_keys=[self.group]), 4).coordinators[0])
        self._until(self._join)
        deadline = time.monotonic() + SECONDS
        while not self.tasks:
            assert time.monotonic() < deadline, "no tasks"
            self.beat()
            time.sleep(0.02)  # the broker is creating the internal topics
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.epoch > 0:
            self.epoch = -1
            self.beat()
        self.channel.disconnect()

    def beat(self) -> m.StreamsGroupHeartbeatResponse:
        response = self._send(
            m.StreamsGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.member_id,
                member_epoch=self.epoch,
                active_tasks=[m.TaskIds(subtopology_id=s, partitions=p) for s, p in self.tasks.items()],
                standby_tasks=[],
                warmup_tasks=[],
            ),
            0,
        )
        assert response.error_code == 0, response.error_message
        return self._apply(response)

    def _join(self) -> m.StreamsGroupHeartbeatResponse:
        return self._apply(
            self._send(
                m.StreamsGroupHeartbeatRequest(
                    group_id=self.group,
                    member_id=self.member_id,
                    process_id="process",
                    rebalance_timeout_ms=10_000,
                    topology=word_count(self.group, self.topic),
                    active_tasks=[],
                    standby_tasks=[],
                    warmup_tasks=[],
                ),
                0,
            )
        )

    def _apply(self, response: m.StreamsGroupHeartbeatResponse) -> m.StreamsGroupHeartbeatResponse:
        if response.error_code == 0:
            self.epoch = response.member_epoch
        if response.active_tasks is not None:
            self.tasks = {t.subtopology_id: t.partitions for t in response.active_tasks}
        return response

    def _send(self, request: Any, version: int) -> Any:
        self.channel.connect()
        self.channel.send(request, version, 1, "streams-thread")
        return self.channel.receive()

    def _until(self, send: Any) -> None:
        """Repeat a request until it has no error: the coordinator may not be ready yet."""
        deadline = time.monotonic() + SECONDS
        while (response := send()).error_code:
            assert time.monotonic() < deadline, response
            time.sleep(0.05)
