"""Compares the topology of a streams group with the cluster's topics: computes the partition counts of internal topics,
and reports topics that are missing or do not fit.

Kafka's `InternalTopicManager` with `RepartitionTopics`, `CopartitionedTopicsEnforcer` and `ChangelogTopics`. Unless the
application sets its number of partitions, a repartition topic gets the largest number of partitions of the topics read
by a subtopology that writes to it. Topics that are joined must have the same number of partitions; repartition topics
among them are adjusted, unless the application sets their number. A changelog topic has one partition per task.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from ottla.cluster.image.cluster_image import ClusterImage
from ottla.coordinator.group.common.consumer_topics import metadata_hash
from ottla.coordinator.group.streams.streams_topology import StreamsTopology, names, sources_of
from ottla.errors import StreamsInvalidTopologyError
from ottla.protocol.messages.streams_group_records import CopartitionGroup, Subtopology, TopicInfo

MAX_NAMES = 3
"""Maximum number of missing topics that a status names."""
USE_DEFAULT = -1
"""The replication factor that stands for the broker's default.replication.factor (KIP-464)."""


class StatusCode(IntEnum):
    """Status codes of a StreamsGroupHeartbeat response, with Kafka's numbers."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class TopologyProblem(NamedTuple):
    """The reason why a topology cannot run yet."""

    code: StatusCode
    detail: str


class InternalTopic(NamedTuple):
    """An internal topic that has to be created."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class ConfiguredSubtopology(NamedTuple):
    """A subtopology with the partition counts of its internal topics."""

    tasks: int
    is_stateful: bool
    sizes: Mapping[str, int]
    """Numbers of partitions of the internal topics, by name."""


@dataclass(frozen=True)
class ConfiguredTopology:
    """The result of `configure` for one topology and one version of the cluster's topics."""

    topology: StreamsTopology
    image_topics: object
    metadata_hash: int
    subtopologies: Mapping[str, ConfiguredSubtopology] = field(default_factory=dict)
    """Subtopologies by id; empty if source topics are missing, or partition counts do not fit."""
    missing: Mapping[str, InternalTopic] = field(default_factory=dict)
    problem: TopologyProblem | None = None

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.problem is None

    def is_of(self, topology: StreamsTopology, image: ClusterImage) -> bool:
        """Return whether the result is for `topology` and the topics of `image`."""
        return self.topology is topology and self.image_topics is image.topics


def configure(topology: StreamsTopology, image: ClusterImage) -> ConfiguredTopology:
    """Compute the partition counts of a topology's internal topics.

    If topics are missing or do not fit, the result has a problem. Raises StreamsInvalidTopologyError if the topology is
    inconsistent.
    """
    new_hash = metadata_hash(topology.required_topics, image)
    try:
        subtopologies, missing = _Configuration(topology, image).configure()
    except _UnfitTopicsError as error:
        return ConfiguredTopology(topology, image.topics, new_hash, problem=error.problem)
    problem = None
    if missing:
        detail = f"Internal topics are missing: {_summary(missing)}"
        problem = TopologyProblem(StatusCode.MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(topology, image.topics, new_hash, subtopologies, missing, problem)


class _UnfitTopicsError(Exception):
    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.problem = TopologyProblem(code, detail)


class _Configuration:
    """One run of `configure`. `_sizes`: the partition counts computed so far, by topic."""

    def __init__(self, topology: StreamsTopology, image: ClusterImage) -> None:
        self._topology = topology
        self._subtopologies = list(topology.subtopologies.values())
        self._image = image
        self._sizes: dict[str, int] = {}

    def configure(self) -> tuple[dict[str, ConfiguredSubtopology], dict[str, InternalTopic]]:
        self._check_sources()
        self._sizes |= self._repartition_sizes()
        self._enforce_copartitioning()
        for subtopology in self._subtopologies:
            tasks = self._tasks(subtopology)
            self._sizes |= dict.fromkeys(names(subtopology.state_changelog_topics), tasks)
        configured = {s.subtopology_id: self._configured(s) for s in self._subtopologies}
        return dict(sorted(configured.items())), self._missing(configured)

    def _check_sources(self) -> None:
        sources = {name for s in self._subtopologies for name in s.source_topics}
        missing = sorted(sources - self._image.topics.keys())
        if missing:
            raise _UnfitTopicsError(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {_summary(missing)} are missing.")

    def _repartition_topics(self) -> Iterator[TopicInfo]:
        return (topic for s in self._subtopologies for topic in s.repartition_source_topics)

    def _repartition_sizes(self) -> dict[str, int]:
        """Return the partition counts of all repartition topics.

        A topic's count depends on those of the topics that its writers read, so repeat until all are known. Raises
        StreamsInvalidTopologyError if some cannot be computed.
        """
        sizes = {topic.name: topic.partitions for topic in self._repartition_topics() if topic.partitions}
        unsized = [(s, sink) for s in self._subtopologies for sink in s.repartition_sink_topics if sink not in sizes]
        while unsized:
            waiting = []
            for subtopology, sink in unsized:
                size = sizes.get(sink) or self._largest_source(subtopology, sizes)
                if size is None:
                    waiting.append((subtopology, sink))
                else:
                    sizes[sink] = size
            if len(waiting) == len(unsized):
                raise StreamsInvalidTopologyError(
                    "Failed to compute number of partitions for all repartition topics. There may be loops in the "
                    "topology that cannot be resolved."
                )
            unsized = waiting
        if any(topic.name not in sizes for topic in self._repartition_topics()):
            raise StreamsInvalidTopologyError(
                "Failed to compute number of partitions for all repartition topics, because a repartition source "
                "topic is never used as a sink topic."
            )
        return sizes

    def _largest_source(self, subtopology: Subtopology, sizes: Mapping[str, int]) -> int | None:
        repartitioned = (sizes.get(name) for name in names(subtopology.repartition_source_topics))
        external = (self._existing(name) for name in subtopology.source_topics)
        return max((size for size in (*repartitioned, *external) if size is not None), default=None)

    def _enforce_copartitioning(self) -> None:
        fixed = {topic.name for topic in self._repartition_topics() if topic.partitions}
        flexible = {topic.name for topic in self._repartition_topics()} - fixed
        for subtopology in self._subtopologies:
            for group in subtopology.copartition_groups:
                topics = _copartitioned(subtopology, group)
                if topics:
                    self._sizes |= self._enforced(topics, fixed, flexible)

    def _enforced(self, topics: Collection[str], fixed: set[str], flexible: set[str]) -> dict[str, int]:
        """Return the partition counts of the repartition topics among topics that are joined."""
        sizes = {name: self._size(name) for name in topics}
        external = [name for name in topics if name not in fixed and name not in flexible]
        deciding = external or [name for name in topics if name in fixed]
        if len({sizes[name] for name in deciding}) > 1:
            shown = ", ".join(f"{name}={sizes[name]}" for name in sorted(deciding if external else sizes))
            raise _UnfitTopicsError(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Following topics do not have the same number of partitions: [{{{shown}}}]",
            )
        size = sizes[deciding[0]] if deciding else max(sizes.values())
        for name in sorted(fixed.intersection(topics)):
            if sizes[name] != size:
                raise _UnfitTopicsError(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{sizes[name]}] of repartition topic [{name}] doesn't match number of "
                    f"partitions [{size}] of the source topic.",
                )
        return {name: size for name in topics if name in fixed or name in flexible}

    def _tasks(self, subtopology: Subtopology) -> int:
        sources = sources_of(subtopology)
        if not sources:
            raise StreamsInvalidTopologyError(f"No source topics found for subtopology {subtopology.subtopology_id}")
        return max(map(self._size, sources))

    def _configured(self, subtopology: Subtopology) -> ConfiguredSubtopology:
        internal = (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics)
        return ConfiguredSubtopology(
            self._tasks(subtopology),
            bool(subtopology.state_changelog_topics),
            {topic.name: topic.partitions or self._sizes[topic.name] for topic in internal},
        )

    def _missing(self, configured: Mapping[str, ConfiguredSubtopology]) -> dict[str, InternalTopic]:
        """Return the internal topics that do not exist.

        Raises _UnfitTopicsError if one exists with another number of partitions.
        """
        missing: dict[str, InternalTopic] = {}
        for subtopology in self._subtopologies:
            sizes = configured[subtopology.subtopology_id].sizes
            for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
                existing = self._existing(topic.name)
                if existing is None:
                    missing[topic.name] = _internal_topic(topic, sizes[topic.name])
                elif existing != sizes[topic.name]:
                    raise _UnfitTopicsError(
                        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                        f"Existing topic {topic.name} has different number of partitions: expected "
                        f"{sizes[topic.name]}, found {existing}",
                    )
        return missing

    def _existing(self, name: str) -> int | None:
        topic = self._image.topics.get(name)
        return None if topic is None else len(topic.partitions)

    def _size(self, name: str) -> int:
        existing = self._existing(name)
        if existing is not None:
            return existing
        if name not in self._sizes:
            raise StreamsInvalidTopologyError(f"Number of partitions is not set for topic: {name}")
        return self._sizes[name]


def _copartitioned(subtopology: Subtopology, group: CopartitionGroup) -> list[str]:
    repartitioned = names(subtopology.repartition_source_topics)
    try:
        sources = [subtopology.source_topics[i] for i in group.source_topics]
        return list(dict.fromkeys((*sources, *(repartitioned[i] for i in group.repartition_source_topics))))
    except IndexError:
        raise StreamsInvalidTopologyError(
            f"A copartition group of subtopology {subtopology.subtopology_id} names a topic that it does not read."
        ) from None


def _internal_topic(topic: TopicInfo, partitions: int) -> InternalTopic:
    configs = {config.key: config.value for config in topic.topic_configs}
    return InternalTopic(topic.name, partitions, topic.replication_factor or USE_DEFAULT, configs)


def _summary(topics: Iterable[str]) -> str:
    ordered = list(topics)
    more = len(ordered) - MAX_NAMES
    return ", ".join(ordered[:MAX_NAMES]) + (f" and {more} additional topics" if more > 0 else "")
