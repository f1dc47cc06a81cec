"""Replication policies: names of topics at the target."""

from __future__ import annotations

import pytest

from ottla.config.mirror import MirrorConfig
from ottla.mirror.replication_policy import IdentityReplicationPolicy, ReplicationPolicy, replication_policy

DEFAULT = ReplicationPolicy()


def test_remote_topic_has_the_alias_of_its_source() -> None:
    assert DEFAULT.remote_topic("A", "visits") == "A.visits"
    assert (DEFAULT.source_of("A.visits"), DEFAULT.upstream_topic("A.visits")) == ("A", "visits")
    assert (DEFAULT.source_of("visits"), DEFAULT.upstream_topic("visits")) == (None, None)
    assert (DEFAULT.source_of("visits."), DEFAULT.upstream_topic("visits.")) == (None, None)


def test_topic_that_comes_from_the_target_is_a_cycle() -> None:
    assert DEFAULT.is_cycle("B.visits", "B")
    assert DEFAULT.is_cycle("C.B.visits", "B")
    assert not DEFAULT.is_cycle("C.visits", "B")
    assert not DEFAULT.is_cycle("visits", "B")


@pytest.mark.parametrize(
    ("topic", "internal"),
    [
        ("__consumer_offsets", True),
        (".hidden", True),
        ("mm2-offset-syncs.B.internal", True),
        ("connect-internal", True),
        ("A.checkpoints.internal", True),
        ("internal", False),
        ("visits", False),
    ],
)
def test_internal_topics_are_recognized(topic: str, internal: bool) -> None:
    assert DEFAULT.is_internal_topic(topic) is internal


def test_internal_topics_have_the_names_of_kafka() -> None:
    assert DEFAULT.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert DEFAULT.checkpoints_topic("A") == "A.checkpoints.internal"
    assert DEFAULT.heartbeats_topic == "heartbeats"
    assert [DEFAULT.is_heartbeats_topic(t) for t in ("heartbeats", "B.A.heartbeats", "myheartbeats")] == [
        True,
        True,
        False,
    ]


def test_separator_applies_to_internal_topics_unless_disabled() -> None:
    policy = replication_policy(MirrorConfig({"replication.policy.separator": "_"}))
    assert policy.remote_topic("A", "visits") == "A_visits"
    assert policy.offset_syncs_topic("B") == "mm2-offset-syncs_B_internal"
    assert policy.is_internal_topic("A_checkpoints_internal")
    configs = {"replication.policy.separator": "_", "replication.policy.internal.topic.separator.enabled": "false"}
    assert replication_policy(MirrorConfig(configs)).checkpoints_topic("A.x") == "A.x.checkpoints.internal"


def test_identity_policy_renames_heartbeats_only() -> None:
    policy = replication_policy(MirrorConfig({"replication.policy.class": "identity"}))
    assert isinstance(policy, IdentityReplicationPolicy)
    assert (policy.remote_topic("A", "visits"), policy.remote_topic("A", "heartbeats")) == ("visits", "A.heartbeats")
    assert policy.is_cycle("B.heartbeats", "B")
    assert not policy.is_cycle("B.visits", "B")
