"""Options of the consumer: each has a test of its effect.

Options of all clients are in `test_producer_options`; some tests are in the files about what the option changes.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from typing import Any

import pytest
from scripts.tables import DOCS
from tests.unit.client.consuming import TP, consumer, fill, poll_until, read
from tests.unit.client.marked_options import marked, missing_mark
from tests.unit.client.scripted import ScriptedBroker

from ottla import KafkaConsumer, TopicPartition
from ottla.config.client import ClientConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.options import duration_ms
from ottla.errors import ConfigurationError, NoOffsetForPartitionError
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest

TESTED = marked("test_*.py", "../net/test_tls.py", "../net/sasl/test_tokens.py")
JAVA = """
bootstrap.servers client.dns.lookup group.id group.instance.id session.timeout.ms heartbeat.interval.ms
partition.assignment.strategy metadata.max.age.ms enable.auto.commit auto.commit.interval.ms client.id
client.rack max.partition.fetch.bytes send.buffer.bytes receive.buffer.bytes fetch.min.bytes fetch.max.bytes
fetch.max.wait.ms reconnect.backoff.ms reconnect.backoff.max.ms retry.backoff.ms retry.backoff.max.ms
enable.metrics.push auto.offset.reset check.crcs metrics.sample.window.ms metrics.num.samples
metrics.recording.level metric.reporters key.deserializer value.deserializer request.timeout.ms
default.api.timeout.ms socket.connection.setup.timeout.ms socket.connection.setup.timeout.max.ms
connections.max.idle.ms interceptor.classes max.poll.records max.poll.interval.ms exclude.internal.topics
internal.throw.on.fetch.stable.offset.unsupported isolation.level allow.auto.create.topics group.protocol
group.remote.assignor security.providers security.protocol metadata.recovery.strategy
metadata.recovery.rebootstrap.trigger.ms config.providers ssl.keystore.location ssl.truststore.location
sasl.mechanism sasl.jaas.config
"""
"""ConsumerConfig of Kafka 4, without the rest of `ssl.` and `sasl.`."""
DEFAULTS = {
    "auto.commit.interval.ms": 5000,
    "auto.offset.reset": "latest",
    "check.crcs": True,
    "client.rack": "",
    "default.api.timeout.ms": 60_000,
    "enable.auto.commit": True,
    "exclude.internal.topics": True,
    "fetch.max.bytes": 52_428_800,
    "fetch.max.wait.ms": 500,
    "fetch.min.bytes": 1,
    "group.id": None,
    "group.instance.id": None,
    "group.protocol": "classic",
    "group.remote.assignor": None,
    "heartbeat.interval.ms": 3000,
    "interceptor.classes": (),
    "isolation.level": "read_uncommitted",
    "max.partition.fetch.bytes": 1_048_576,
    "max.poll.interval.ms": 300_000,
    "max.poll.records": 500,
    "partition.assignment.strategy": ("range", "cooperative-sticky"),
    "session.timeout.ms": 45_000,
}
"""The defaults of the Java consumer."""


@pytest.mark.parametrize("option", sorted({*ConsumerConfig.options} - {*ClientConfig.options}))
def test_every_option_is_documented_and_has_a_test(option: str) -> None:
    assert option in TESTED, missing_mark(option)
    assert f"| `{option}` |" in (DOCS / "options.md").read_text(), "run make docs"


def test_every_option_of_the_java_consumer_is_known() -> None:
    existing = {*ConsumerConfig.options, *ConsumerConfig.no_effect}
    assert set(JAVA.split()) - existing == set()


def test_options_have_the_java_consumers_defaults() -> None:
    config = ConsumerConfig({"bootstrap.servers": "localhost:9092", "group.id": None})
    defaults = {key: ConsumerConfig.options[key].default for key in DEFAULTS}
    assert defaults == DEFAULTS
    assert config.enable_auto_commit is False, "without a group there is nothing to commit for"


@pytest.mark.option("internal.leave.group.on.close")
def test_configs_without_effect_are_accepted_and_logged(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        consumer(broker, metric_group_prefix="x", selector=object(), sasl_kerberos_service_name="kafka").close()
    assert "metric.group.prefix (groups of metrics have Kafka's names)" in caplog.text


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("auto_offset_reset", "by_duration:-PT1H"),
        ("auto_offset_reset", "by_duration:1h"),
        ("auto_offset_reset", "first"),
        ("fetch_min_bytes", -1),
        ("max_poll_records", 0),
        ("max_poll_interval_ms", 0),
        ("isolation_level", "serializable"),
        ("group_protocol", "share"),
        ("max_partition_fetch_bytes", "many"),
        ("partition_assignment_strategy", []),
        ("partition_assignment_strategy", "missing.HasThis"),
        ("interceptor_classes", "missing.HasThis"),
        ("auto_offset_reset", "by_duration:P1DT"),
        ("enable_auto_commit", "perhaps"),
        ("auto_commit_interval_ms", -1),
        ("default_api_timeout_ms", -1),
        ("consumer_timeout_ms", -1),
    ],
)
def test_invalid_value_is_rejected_with_the_option_name(option: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=option.replace("_", r"\.")):
        KafkaConsumer(bootstrap_servers="localhost:1", **{option: value})


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("PT1H", 3_600_000), ("P2D", 172_800_000), ("pt1m0.5s", 60_500), ("P1DT2H3M4S", 93_784_000), ("PT0S", 0)],
)
@pytest.mark.option("auto.offset.reset")
def test_duration_is_parsed_like_java_durations(text: str, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds


@pytest.mark.option("group.id", "group.instance.id")
def test_group_and_instance_id_are_sent_to_the_broker(broker: ScriptedBroker) -> None:
    with consumer(broker, "t", group_id="mine", group_instance_id="one") as c:
        poll_until(c, lambda: bool(c.assignment()))
    assert broker.requests_of(FindCoordinatorRequest)[0].coordinator_keys == ["mine"]
    (join, *_) = broker.requests_of(JoinGroupRequest)
    assert (join.group_id, join.group_instance_id) == ("mine", "one")


@pytest.mark.option("max.poll.interval.ms")
def test_max_poll_interval_is_sent_as_the_rebalance_timeout(broker: ScriptedBroker) -> None:
    with consumer(broker, "t", group_id="g", max_poll_interval_ms=12_345) as c:
        poll_until(c, lambda: bool(c.assignment()))
    assert broker.requests_of(JoinGroupRequest)[0].rebalance_timeout_ms == 12_345


@pytest.mark.option("partition.assignment.strategy")
@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ("range", ["range"]),
        (["sticky", "roundrobin"], ["sticky", "roundrobin"]),
        ("org.apache.kafka.clients.consumer.CooperativeStickyAssignor", ["cooperative-sticky"]),
        ("ottla.client.consumer.group.assignors.RangeAssignor", ["range"]),
    ],
)
def test_assignors_are_sent_in_the_configured_order(broker: ScriptedBroker, arguments: Any, names: list[str]) -> None:
    with consumer(broker, "t", group_id="g", partition_assignment_strategy=arguments) as c:
        poll_until(c, lambda: bool(c.assignment()))
    assert [p.name for p in broker.requests_of(JoinGroupRequest)[0].protocols] == names


@pytest.mark.option("enable.auto.commit", "auto.commit.interval.ms")
def test_enable_auto_commit_decides_whether_positions_are_committed(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    with consumer(broker, "t", group_id="g", auto_commit_interval_ms=30) as c:
        read(c, 10)
        poll_until(c, lambda: broker.committed.get(("t", 0)) == (10, ""))
    count = len(broker.requests_of(OffsetCommitRequest))
    with consumer(broker, "t", group_id="g", enable_auto_commit="false", auto_commit_interval_ms=1) as c:
        poll_until(c, lambda: bool(c.assignment()))
        c.seek(TP, 0)
        read(c, 10)
        c.enforce_rebalance()
        poll_until(c, lambda: len(broker.requests_of(JoinGroupRequest)) == 3)
    assert len(broker.requests_of(OffsetCommitRequest)) == count


@pytest.mark.option("auto.offset.reset")
@pytest.mark.parametrize(("policy", "first"), [("earliest", 0), ("smallest", 0), ("latest", 10), ("largest", 10)])
def test_auto_offset_reset_decides_the_start_position(broker: ScriptedBroker, policy: str, first: int) -> None:
    fill(broker, 10)
    with consumer(broker, auto_offset_reset=policy) as c:
        c.assign([TP])
        assert c.position(TP) == first


@pytest.mark.option("auto.offset.reset")
def test_error_without_a_reset_policy_names_all_partitions_without_an_offset(broker: ScriptedBroker) -> None:
    broker.add_topic("t", 2)
    with consumer(broker, auto_offset_reset="none", group_id="g") as c:
        c.assign([TP, TopicPartition("t", 1)])
        with pytest.raises(NoOffsetForPartitionError, match="t-0, t-1"):
            poll_until(c, lambda: False)


@pytest.mark.option("max.poll.records")
def test_poll_returns_at_most_max_poll_records(broker: ScriptedBroker) -> None:
    fill(broker, 30)
    with consumer(broker, max_poll_records=4) as c:
        c.assign([TP])
        sizes = [sum(map(len, c.poll(timeout_ms=2000).values())) for _ in range(3)]
        assert sizes == [4, 4, 4]
        assert sum(map(len, c.poll(timeout_ms=2000, max_records=9).values())) <= 9


@pytest.mark.option("default.offset.commit.callback")
def test_default_offset_commit_callback_is_called_for_commits_without_a_callback(broker: ScriptedBroker) -> None:
    output: list[Any] = []

    def callback(offsets: Any, error: Any) -> None:
        output.append((offsets[TP].offset, error, threading.current_thread() is threading.main_thread()))

    fill(broker, 10)
    with consumer(broker, "t", group_id="g", auto_commit_interval_ms=30, default_offset_commit_callback=callback) as c:
        read(c, 10)
        poll_until(c, lambda: (10, None, True) in output)
        c.commit_async({TP: 3}, lambda offsets, error: output.append("own"))
        poll_until(c, lambda: "own" in output)
    assert all(entry == "own" or entry[1] is None for entry in output)


@pytest.mark.option("enable.incremental.fetch.sessions")
def test_fetch_sessions_can_be_disabled(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    with consumer(broker, enable_incremental_fetch_sessions=False) as c:
        c.assign([TP])
        read(c, 10)
        poll_until(c, lambda: len(broker.requests_of(FetchRequest)) > 3)
    assert {(r.session_id, r.session_epoch) for r in broker.requests_of(FetchRequest)} == {(0, -1)}
    assert all(r.topics for r in broker.requests_of(FetchRequest))


@pytest.mark.option("retry.backoff.ms", "retry.backoff.max.ms")
def test_find_coordinator_is_retried_with_exponential_backoff(broker: ScriptedBroker) -> None:
    times: list[float] = []

    def unavailable(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        times.append(time.monotonic())
        return FindCoordinatorResponse(coordinators=[Coordinator(key="g", error_code=15)])

    broker.on(FindCoordinatorRequest, unavailable, times=6)
    with consumer(broker, "t", group_id="g", retry_backoff_ms=10, retry_backoff_max_ms=80) as c:
        poll_until(c, lambda: bool(c.assignment()))
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert pauses[0] >= 0.008
    assert pauses[3] >= 0.06, "10, 20, 40, 80"
