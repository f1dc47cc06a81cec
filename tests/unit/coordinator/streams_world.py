"""A group coordinator with a streams group, without a broker, and topologies and tasks for its tests."""

from __future__ import annotations

from typing import Any

from tests.unit.coordinator.consumer_world import CLIENT, World

from ottla.cluster.image.cluster_image import ClusterImage
from ottla.coordinator.group.streams.streams_group import StreamsGroup
from ottla.coordinator.group.streams.tasks import TaskRole, Tasks, by_subtopology
from ottla.protocol.messages import streams_group_heartbeat as m

Owned = dict[str, list[int]]
NO_DELAY = {
    "group_streams_initial_rebalance_delay_ms": 0,
    "group_streams_assignment_interval_ms": 0,
}


def topic_info(name: str, partitions: int = 0, **configs: str) -> m.TopicInfo:
    return m.TopicInfo(
        name=name,
        partitions=partitions,
        topic_configs=[m.KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def subtopology(
    name: str,
    sources: str = "",
    *,
    sinks: str = "",
    repartitions: list[m.TopicInfo] | None = None,
    changelogs: str = "",
    joined: tuple[list[int], list[int]] | None = None,
) -> m.Subtopology:
    """Return a subtopology; `joined` has indexes of source and repartition topics that are joined."""
    groups = []
    if joined is not None:
        groups = [m.CopartitionGroup(source_topics=joined[0], repartition_source_topics=joined[1])]
    return m.Subtopology(
        subtopology_id=name,
        source_topics=sources.split(),
        repartition_sink_topics=sinks.split(),
        repartition_source_topics=repartitions or [],
        state_changelog_topics=[topic_info(changelog) for changelog in changelogs.split()],
        copartition_groups=groups,
    )


def topology(*subtopologies: m.Subtopology, epoch: int = 0) -> m.Topology:
    return m.Topology(epoch=epoch, subtopologies=list(subtopologies))


STATELESS = topology(subtopology("0", "t"))
STATEFUL = topology(subtopology("0", "t", changelogs="g-changelog"))
WORD_COUNT = topology(
    subtopology("0", "t", sinks="g-repartition"),
    subtopology("1", repartitions=[topic_info("g-repartition")], changelogs="g-changelog"),
)


def task_ids(owned: Owned) -> list[m.TaskIds]:
    return [m.TaskIds(subtopology_id=s, partitions=p) for s, p in owned.items()]


def tasks_in(tasks: list[m.TaskIds] | None) -> Owned | None:
    return None if tasks is None else {entry.subtopology_id: entry.partitions for entry in tasks}


def tasks_by_subtopology(tasks: Tasks, role: TaskRole = TaskRole.ACTIVE) -> Owned:
    return dict(by_subtopology(tasks, role))


def statuses(response: m.StreamsGroupHeartbeatResponse) -> list[int]:
    return [status.status_code for status in response.status or ()]


class StreamsWorld(World):
    """One coordinator with a streams group `g`."""

    def __init__(self, topics: dict[str, int] | None = None, **options: Any) -> None:
        super().__init__({"t": 4} if topics is None else topics, **{**NO_DELAY, **options})

    def send_streams_heartbeat(self, request: m.StreamsGroupHeartbeatRequest) -> m.StreamsGroupHeartbeatResponse:
        future = object()
        self.apply(self.coordinator.streams_heartbeat(request, CLIENT, future))
        response = self.responses[future]
        assert isinstance(response, m.StreamsGroupHeartbeatResponse)
        return response

    def run(
        self, member: str, epoch: int, active: Owned | None = None, standby: Owned | None = None, **more: Any
    ) -> m.StreamsGroupHeartbeatResponse:
        """Send a heartbeat, with the tasks that the member runs if `active` is set."""
        if active is not None:
            lists = (task_ids(active), task_ids(standby or {}), list[m.TaskIds]())
            more |= dict(zip(("active_tasks", "standby_tasks", "warmup_tasks"), lists, strict=True))
        return self.send_streams_heartbeat(
            m.StreamsGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch, **more)
        )

    def start(
        self, member: str, sent: m.Topology = STATELESS, process: str | None = None, **more: Any
    ) -> m.StreamsGroupHeartbeatResponse:
        """Join."""
        fields = {"topology": sent, "process_id": process or member, "rebalance_timeout_ms": 60_000, **more}
        return self.run(member, 0, {}, **fields)

    @property
    def streams(self) -> StreamsGroup:
        group = self.coordinator.by_id["g"]
        assert isinstance(group, StreamsGroup)
        return group

    def create_missing(self) -> None:
        """Create the internal topics that the group needs, as the broker does."""
        missing = self.coordinator.streams.missing_topics("g")
        sizes = {name: len(topic.partitions) for name, topic in self.image.topics.items()}
        self.topics(sizes | {name: topic.partitions for name, topic in missing.items()})


def image_of(sizes: dict[str, int]) -> ClusterImage:
    return World(sizes).image
