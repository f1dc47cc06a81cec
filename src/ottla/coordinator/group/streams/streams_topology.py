"""The topology of a streams group as its members describe it. Kafka's `StreamsTopology`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ottla.protocol.messages import streams_group_heartbeat as heartbeat
from ottla.protocol.messages.streams_group_records import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)


@dataclass(frozen=True)
class StreamsTopology:
    """A topology: its epoch, and its subtopologies by id."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]

    @cached_property
    def readers(self) -> Mapping[str, str]:
        """Ids of subtopologies by the names of the topics that they read."""
        return {name: s.subtopology_id for s in self.subtopologies.values() for name in sources_of(s)}

    @cached_property
    def required_topics(self) -> frozenset[str]:
        """Names of the topics that must exist: sources, repartition topics and changelogs."""
        return frozenset(
            name for s in self.subtopologies.values() for name in (*sources_of(s), *names(s.state_changelog_topics))
        )

    def to_record(self) -> StreamsGroupTopologyValue:
        return StreamsGroupTopologyValue(epoch=self.epoch, subtopologies=list(self.subtopologies.values()))


def names(topics: list[TopicInfo]) -> list[str]:
    return [topic.name for topic in topics]


def sources_of(subtopology: Subtopology) -> list[str]:
    """Return the names of all topics that a subtopology reads."""
    return [*subtopology.source_topics, *names(subtopology.repartition_source_topics)]


def from_record(value: StreamsGroupTopologyValue) -> StreamsTopology:
    return StreamsTopology(value.epoch, {s.subtopology_id: s for s in value.subtopologies})


def from_heartbeat(topology: heartbeat.Topology) -> StreamsTopology:
    """Return the topology of a joining member."""
    return StreamsTopology(topology.epoch, {s.subtopology_id: _subtopology(s) for s in topology.subtopologies})


def topics_of(topology: heartbeat.Topology) -> list[str]:
    """Return the names of all topics in the topology of a joining member, each once."""
    every = (
        name
        for s in topology.subtopologies
        for name in (
            *s.source_topics,
            *s.repartition_sink_topics,
            *(topic.name for topic in s.repartition_source_topics),
            *(topic.name for topic in s.state_changelog_topics),
        )
    )
    return list(dict.fromkeys(every))


def _subtopology(subtopology: heartbeat.Subtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=subtopology.source_topics,
        source_topic_regex=subtopology.source_topic_regex,
        state_changelog_topics=[_topic(topic) for topic in subtopology.state_changelog_topics],
        repartition_sink_topics=subtopology.repartition_sink_topics,
        repartition_source_topics=[_topic(topic) for topic in subtopology.repartition_source_topics],
        copartition_groups=[
            CopartitionGroup(
                source_topics=group.source_topics,
                source_topic_regex=group.source_topic_regex,
                repartition_source_topics=group.repartition_source_topics,
            )
            for group in subtopology.copartition_groups
        ],
    )


def _topic(topic: heartbeat.TopicInfo) -> TopicInfo:
    return TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[TopicConfig(key=config.key, value=config.value) for config in topic.topic_configs],
    )
