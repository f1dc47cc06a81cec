"""Configuration of flows by the properties file of MirrorMaker 2."""

from __future__ import annotations

import pytest

from ottla.config import properties
from ottla.errors import ConfigurationError
from ottla.mirror.flow_config import FlowName, MirrorProperties

CLUSTERS = {"clusters": "A, B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1"}
A_TO_B = {**CLUSTERS, "A->B.enabled": "true"}
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def test_example_properties_of_kafka_are_read() -> None:
    source = """
        clusters = A, B
        A.bootstrap.servers = A_host1:9092, A_host2:9092
        B.bootstrap.servers = B_host1:9092
        A->B.enabled = true
        A->B.topics = .*
        B->A.enabled = true
        B->A.topics = orders\\\\.v.*, visits
        replication.factor=1
        checkpoints.topic.replication.factor=1
        offset-syncs.topic.replication.factor=1
        offset.storage.replication.factor=1
        status.storage.replication.factor=1
        config.storage.replication.factor=1
        emit.checkpoints.interval.seconds = 5
    """
    a_to_b, b_to_a = MirrorProperties(properties.parse(source)).flows()
    assert (str(a_to_b.name), str(b_to_a.name)) == ("A->B", "B->A")
    assert a_to_b.config.replication_factor == 1
    assert a_to_b.config.offset_syncs_topic_replication_factor == 1
    assert a_to_b.config.offset_storage_replication_factor == 1
    assert b_to_a.config.emit_checkpoints_interval_seconds == 5
    assert b_to_a.config.topics is not None
    assert [bool(b_to_a.config.topics.fullmatch(name)) for name in ("orders.v2", "visits", "x")] == [True, True, False]


def test_config_of_a_flow_overrides_the_config_of_all_flows() -> None:
    both = {**A_TO_B, "B->A.enabled": "true", "replication.factor": "3", "B->A.replication.factor": "1"}
    assert [flow.config.replication_factor for flow in MirrorProperties(both).flows()] == [3, 1]


@pytest.mark.parametrize("prefix", ["", "B.", "A->B."])
def test_exactly_once_is_configured_globally_per_target_or_per_flow(prefix: str) -> None:
    flow = MirrorProperties({**A_TO_B, f"{prefix}exactly.once.source.support": "disabled"}).flows(["B"])[0]
    assert flow.config.exactly_once_source_support == "disabled"


def test_flow_that_is_not_enabled_emits_heartbeats_only() -> None:
    assert [(str(f.name), f.config.enabled) for f in MirrorProperties(A_TO_B).flows()] == [
        ("A->B", True),
        ("B->A", False),
    ]
    without = {**A_TO_B, "emit.heartbeats.enabled": "false"}
    assert [str(f.name) for f in MirrorProperties(without).flows()] == ["A->B"]


def test_clusters_option_limits_flows_to_target_clusters() -> None:
    assert [str(f.name) for f in MirrorProperties(A_TO_B).flows(["B"])] == ["A->B"]
    with pytest.raises(ConfigurationError, match="--clusters: 'C'"):
        MirrorProperties(A_TO_B).flows(["C"])


def test_client_configs_come_from_cluster_role_and_flow() -> None:
    configs = MirrorProperties(
        {
            **A_TO_B,
            "ssl.truststore.location": "/all",
            "A.security.protocol": "SSL",
            "A.ssl.truststore.location": "/a",
            "A.config.storage.replication.factor": "1",
            "A.consumer.fetch.max.bytes": "1",
            "A->B.consumer.fetch.max.bytes": "2",
            "B.producer.compression.type": "zstd",
        }
    )
    flow = FlowName("A", "B")
    consumer = configs.client_configs("consumer", "A", flow)
    assert consumer.pop("client.id") == "mirror-maker-A-to-B-consumer"
    assert consumer == {
        "bootstrap.servers": "a:1",
        "security.protocol": "SSL",
        "ssl.truststore.location": "/a",
        "fetch.max.bytes": "2",
    }
    producer = configs.client_configs("producer", "B", flow)
    assert (producer["compression.type"], producer["ssl.truststore.location"]) == ("zstd", "/all")
    assert "security.protocol" not in producer
    assert configs.client_configs("admin", "A")["security.protocol"] == "SSL"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clusters": "A"}, "at least two"),
        ({"clusters": "A, A"}, "different"),
        ({"clusters": "A, B, C"}, r"C\.bootstrap\.servers is required"),
        ({"A->B.enabled": "false"}, r"no flow is enabled; set one of A->B\.enabled=true"),
        ({"A->b.enabled": "true"}, r"A->b\.enabled: there is no flow A->b; did you mean A->B"),
        ({"replication.factor": "two"}, r"replication\.factor: 'two' is not allowed"),
        ({"A->B.topics": "("}, "not a valid regular expression"),
        ({"replication.policy.class": "com.example.Policy"}, "DefaultReplicationPolicy|default, identity"),
        ({"replication.policy.separator": ""}, "must not be empty"),
        ({"sync.group.offsets.enabled": "true", "emit.offset-syncs.enabled": "false"}, "sync.group.offsets.enabled"),
        ({"sync.group.offsets.enabled": "true", "emit.checkpoints.enabled": "false"}, "sync.group.offsets.enabled"),
    ],
)
def test_invalid_properties_are_rejected(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        MirrorProperties({**A_TO_B, **changes}).flows()


def test_unknown_options_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    more = {"replication.facter": "1", "A->B.topix": "x", "tasks.max": "4", "A.config.storage.topic": "x"}
    MirrorProperties({**A_TO_B, **more, "ssl.truststore.location": "/t", "B.producer.acks": "all"}).flows(["B"])
    assert [record.getMessage() for record in caplog.records] == [
        "Ignoring mirror maker configs without effect: tasks.max (one process copies all partitions of a flow)",
        "Unknown mirror maker config replication.facter; did you mean replication.factor?",
        "Unknown mirror maker config topix; did you mean topics?",
    ]


def test_identity_policy_in_both_directions_is_rejected_for_the_same_topics() -> None:
    both = {**A_TO_B, "B->A.enabled": "true", "replication.policy.class": IDENTITY}
    with pytest.raises(ConfigurationError, match="copied in a circle"):
        MirrorProperties(both).flows()
    apart = {**both, "A->B.topics": "from-a.*", "B->A.topics": "from-b.*"}
    assert len(MirrorProperties(apart).flows()) == 2


def test_identity_policy_in_a_circle_of_three_is_rejected() -> None:
    three = {"clusters": "A,B,C", **{f"{c}.bootstrap.servers": "x:1" for c in "ABC"}}
    circle = {**three, "A->B.enabled": "true", "B->C.enabled": "true", "replication.policy.class": IDENTITY}
    assert MirrorProperties(circle).flows()
    with pytest.raises(ConfigurationError, match="copied in a circle"):
        MirrorProperties({**circle, "C->A.enabled": "true"}).flows()
