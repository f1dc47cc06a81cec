"""Topologies of streams groups: sizes of internal topics, missing topics, and copartitioning."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.streams_world import WORD_COUNT, image_of, subtopology, topic_info, topology

from ottla.coordinator.group.streams import streams_topology
from ottla.coordinator.group.streams.configured_topology import ConfiguredTopology, StatusCode, configure
from ottla.errors import StreamsInvalidTopologyError
from ottla.protocol.messages.streams_group_heartbeat import Topology


def configured(sent: Topology, sizes: dict[str, int]) -> ConfiguredTopology:
    return configure(streams_topology.from_heartbeat(sent), image_of(sizes))


def problem(result: ConfiguredTopology) -> tuple[StatusCode, str]:
    assert result.problem is not None
    return result.problem.code, result.problem.detail


def test_internal_topics_have_the_partition_count_of_the_source_topics() -> None:
    result = configured(WORD_COUNT, {"t": 4})
    assert {name: topic.partitions for name, topic in result.missing.items()} == {
        "g-repartition": 4,
        "g-changelog": 4,
    }
    assert {s: c.tasks for s, c in result.subtopologies.items()} == {"0": 4, "1": 4}
    assert [c.is_stateful for c in result.subtopologies.values()] == [False, True]
    assert problem(result) == (
        StatusCode.MISSING_INTERNAL_TOPICS,
        "Internal topics are missing: g-repartition, g-changelog",
    )
    assert configured(WORD_COUNT, {"t": 4, "g-repartition": 4, "g-changelog": 4}).is_ready


def test_internal_topic_has_the_replication_factor_and_configs_of_the_topology() -> None:
    topic = topic_info("g-repartition", 3, cleanup_policy="delete")
    topic.replication_factor = 2
    result = configured(topology(subtopology("0", repartitions=[topic])), {})
    assert result.missing["g-repartition"] == ("g-repartition", 3, 2, {"cleanup.policy": "delete"})
    default = configured(topology(subtopology("0", "t", changelogs="c")), {"t": 1})
    assert default.missing["c"].replication_factor == -1


def test_repartition_topics_get_partition_counts_across_subtopologies() -> None:
    result = configured(
        topology(
            subtopology("2", repartitions=[topic_info("second")]),
            subtopology("1", repartitions=[topic_info("first")], sinks="second"),
            subtopology("0", "small large", sinks="first"),
        ),
        {"small": 2, "large": 5},
    )
    assert {name: topic.partitions for name, topic in result.missing.items()} == {"first": 5, "second": 5}


def test_missing_source_topics_are_reported() -> None:
    result = configured(topology(subtopology("0", "a b"), subtopology("1", "c d e")), {"b": 1})
    assert problem(result) == (
        StatusCode.MISSING_SOURCE_TOPICS,
        "Source topics a, c, d and 1 additional topics are missing.",
    )
    assert result.subtopologies == {}


def test_copartitioned_source_topics_of_different_sizes_are_reported() -> None:
    result = configured(topology(subtopology("0", "a b", joined=([0, 1], []))), {"a": 1, "b": 2})
    assert problem(result) == (
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Following topics do not have the same number of partitions: [{a=1, b=2}]",
    )


def test_repartition_topic_gets_the_partition_count_of_its_copartition_group() -> None:
    joined = topology(
        subtopology("0", "large", sinks="r"),
        subtopology("1", "small", repartitions=[topic_info("r")], joined=([0], [0])),
    )
    assert configured(joined, {"large": 6, "small": 2}).missing["r"].partitions == 2
    fixed = topology(
        subtopology("0", "large", sinks="r"),
        subtopology("1", "small", repartitions=[topic_info("r", 3)], joined=([0], [0])),
    )
    code, detail = problem(configured(fixed, {"large": 6, "small": 2}))
    assert code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert "Number of partitions [3] of repartition topic [r]" in detail


def test_copartitioned_repartition_topics_get_the_largest_or_the_fixed_size() -> None:
    def joined(second: int) -> Topology:
        return topology(
            subtopology("0", "small", sinks="r1"),
            subtopology("1", "large", sinks="r2"),
            subtopology("2", repartitions=[topic_info("r1"), topic_info("r2", second)], joined=([], [0, 1])),
        )

    sizes = {"small": 2, "large": 4}
    assert {t.partitions for t in configured(joined(0), sizes).missing.values()} == {4}
    assert {t.partitions for t in configured(joined(7), sizes).missing.values()} == {7}


def test_existing_internal_topic_of_the_wrong_size_is_reported() -> None:
    result = configured(WORD_COUNT, {"t": 4, "g-repartition": 4, "g-changelog": 3})
    assert problem(result) == (
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic g-changelog has different number of partitions: expected 4, found 3",
    )


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (topology(subtopology("0", repartitions=[topic_info("r")])), "never used as a sink"),
        (
            topology(
                subtopology("0", repartitions=[topic_info("a")], sinks="b"),
                subtopology("1", repartitions=[topic_info("b")], sinks="a"),
            ),
            "loops",
        ),
        (topology(subtopology("0")), "No source topics"),
        (topology(subtopology("0", "t", joined=([1], []))), "does not read"),
    ],
)
def test_invalid_topology_is_rejected(sent: Topology, message: str) -> None:
    with pytest.raises(StreamsInvalidTopologyError, match=message):
        configured(sent, {"t": 1})
