"""Rules of the 0.8 consumer without I/O: ids, registrations, topic filters, assignment and configs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import Watcher
from ottla.cluster.store.zk_client import ZkClient, broker_address
from ottla.errors import ConfigurationError, KafkaError
from ottla.legacy import Blacklist, ConsumerConfig, StringDecoder, TopicPartition, Whitelist
from ottla.legacy.consumer.consumer_connector import ConsumerConnector
from ottla.legacy.consumer.group_view import GroupWatcher
from ottla.legacy.consumer.partition_assignor import AssignmentContext, by_range, round_robin
from ottla.legacy.consumer.topic_count import ConsumerThreadId, TopicCount, consumer_id_string

REQUIRED = {"group.id": "g", "zookeeper.connect": "z:2181"}


def assign(
    partitions: int, members: dict[str, int], strategy: str = "range", topics: tuple[str, ...] = ("t",)
) -> dict[str, list[int]]:
    """Return the partitions by thread; every member computes its own part."""
    threads = sorted((ConsumerThreadId(m, n) for m, count in members.items() for n in range(count)), key=str)
    actual: dict[str, list[int]] = {str(thread): [] for thread in threads}
    for member in members:
        context = AssignmentContext(
            member, dict.fromkeys(topics, threads), {t: list(range(partitions)) for t in topics}
        )
        for tp, thread in (by_range if strategy == "range" else round_robin)(context).items():
            assert thread.consumer == member
            actual[str(thread)].append(tp.partition)
    return actual


@pytest.mark.parametrize(
    ("partitions", "members", "expected"),
    [
        # examples from articles about the 0.8 consumer
        (4, {"a": 1, "b": 1, "c": 1}, {"a-0": [0, 1], "b-0": [2], "c-0": [3]}),
        (4, {"a": 2, "b": 2, "c": 2}, {"a-0": [0], "a-1": [1], "b-0": [2], "b-1": [3], "c-0": [], "c-1": []}),
        (4, {"a": 1, "b": 1}, {"a-0": [0, 1], "b-0": [2, 3]}),
        (5, {"a": 2, "b": 2}, {"a-0": [0, 1], "a-1": [2], "b-0": [3], "b-1": [4]}),
        (0, {"a": 1}, {"a-0": []}),
    ],
)
def test_range_assigns_consecutive_partitions_to_sorted_threads(
    partitions: int, members: dict[str, int], expected: dict[str, list[int]]
) -> None:
    assert assign(partitions, members) == expected


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 6])
def test_range_assigns_equal_shares_if_threads_divide_the_partitions(threads: int) -> None:
    size = -(-12 // threads)
    assert list(assign(12, {"a": threads}).values()) == [list(range(i * size, (i + 1) * size)) for i in range(threads)]


def test_consumer_threads_are_sorted_as_text() -> None:
    actual = assign(11, {"a": 11})
    assert actual["a-10"] == [2]  # behind a-1
    assert actual["a-2"] == [3]


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
@pytest.mark.parametrize("members", [{"a": 1}, {"a": 3, "b": 2}, {"a": 7, "b": 7, "c": 1}])
def test_every_partition_is_assigned_to_one_thread(strategy: str, members: dict[str, int]) -> None:
    for partitions in range(20):
        actual = assign(partitions, members, strategy)
        assert sorted(p for partitions_of_thread in actual.values() for p in partitions_of_thread) == list(
            range(partitions)
        )
        sizes = [len(partitions_of_thread) for partitions_of_thread in actual.values()]
        assert max(sizes) - min(sizes) <= 1


def test_round_robin_orders_partitions_by_javas_hash_of_their_text() -> None:
    thread = ConsumerThreadId("a", 0)
    other = ConsumerThreadId("b", 0)
    context = AssignmentContext("a", {"t": [thread, other]}, {"t": [0, 1, 2, 3]})
    # Java: "[t,0]".hashCode() < "[t,1]".hashCode() < …
    assert round_robin(context) == {TopicPartition("t", 0): thread, TopicPartition("t", 2): thread}


def test_round_robin_requires_equal_subscriptions() -> None:
    a, b = ConsumerThreadId("a", 0), ConsumerThreadId("b", 0)
    with pytest.raises(KafkaError, match="roundrobin requires that all members"):
        round_robin(AssignmentContext("a", {"t": [a, b], "u": [b]}, {"t": [0]}))


def test_consumer_id_has_host_time_and_eight_digits() -> None:
    assert re.fullmatch(r"g_.+-1403061899859-[0-9a-f]{8}", consumer_id_string("g", None, 1403061899859))
    assert consumer_id_string("g", "mine", 0) == "g_mine"
    assert consumer_id_string("g", None, 0) != consumer_id_string("g", None, 0)


def test_consumer_registration_has_kafkas_json() -> None:
    count = TopicCount({"t": 5})
    raw = count.to_json(1403061899859)
    assert raw == b'{"version":1,"subscription":{"t":5},"pattern":"static","timestamp":"1403061899859"}'
    assert TopicCount.of_json("m", raw) == count


def test_topic_filter_is_registered_by_its_regex_and_matches_existing_topics() -> None:
    count = TopicCount.of_filter(Whitelist("a.*, b"), 2)
    raw = count.to_json(0)
    assert json.loads(raw)["subscription"] == {"a.*|b": 2}
    assert json.loads(raw)["pattern"] == "white_list"
    threads = TopicCount.of_json("m", raw).threads("m", lambda: ["a1", "b", "bc"], True)
    assert threads == {t: [ConsumerThreadId("m", 0), ConsumerThreadId("m", 1)] for t in ("a1", "b")}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b'{"subscription":{},"pattern":"static"}',
        b'{"subscription":3,"pattern":"x"}',
        b'{"subscription":{"(":1},"pattern":"white_list"}',
        b'{"subscription":{"a{99999999999999999999}":1},"pattern":"white_list"}',
        b'{"subscription":{"a":1,"b":1},"pattern":"black_list"}',
    ],
)
def test_malformed_registration_raises_an_error_with_the_member_id(raw: bytes) -> None:
    with pytest.raises(KafkaError, match="malformed subscription of group member m:"):
        TopicCount.of_json("m", raw)


class Znodes:
    """In place of a `ZkClient`: a group with the member `m`, and the topic `t`."""

    def __init__(self, topic: bytes) -> None:
        self._topic = topic

    def brokers(self, _: Watcher | None = None) -> dict[int, tuple[str, int]]:
        return {}

    def children(self, path: str, _: Watcher | None = None) -> list[str]:
        return ["m"] if path == znodes.consumer_ids("g") else ["t"]

    def get(self, path: str, _: Watcher | None = None) -> bytes:
        assert path == znodes.topic("t")
        return self._topic


@pytest.mark.parametrize("topic", [b"{", b"{}", b"[]", b'{"partitions":{"x":[1]}}', b'{"partitions":null}'])
def test_malformed_topic_is_an_error_of_the_group_that_is_read_again(topic: bytes) -> None:
    zk: Any = Znodes(topic)
    with pytest.raises(KafkaError, match="/brokers/topics/t is not a replica assignment"):
        GroupWatcher(zk, "g", "m", lambda: None).read(TopicCount({"t": 1}), exclude_internal=True)


def test_connector_that_was_not_started_can_be_shut_down() -> None:
    with ConsumerConnector(ConsumerConfig(REQUIRED)) as connector:
        with pytest.raises(KafkaError, match="the session with ZooKeeper has not been started"):
            connector.create_message_streams({"t": 1})
    connector.shutdown()


@pytest.mark.parametrize(("name", "raw"), [("1", b"{"), ("1", b"[]"), ("x", b'{"host":"h","port":1}')])
def test_malformed_registration_of_a_broker_is_an_error_of_the_store(
    monkeypatch: pytest.MonkeyPatch, name: str, raw: bytes
) -> None:
    zk = ZkClient("z:2181")
    monkeypatch.setattr(zk, "children", lambda *_: [name])
    monkeypatch.setattr(zk, "get", lambda _: raw)
    with pytest.raises(KafkaError, match=f"/brokers/ids/{name} is not a registration"):
        zk.brokers()
    zk.close()


def test_topic_filter_excludes_internal_topics() -> None:
    assert not Whitelist(".*").is_topic_allowed("__consumer_offsets", True)
    assert Whitelist(".*").is_topic_allowed("__consumer_offsets", False)
    assert not Blacklist("a").is_topic_allowed("a", True)
    assert Blacklist("a").is_topic_allowed("ab", True)
    assert Whitelist(" 'a,b' ").regex == "a|b"
    with pytest.raises(ValueError, match="invalid regex"):
        Whitelist("(")


def test_broker_address_is_host_and_port_of_the_registration() -> None:
    assert broker_address(b'{"jmx_port":-1,"version":1,"host":"h","port":9092}') == ("h", 9092)
    assert broker_address(b'{"endpoints":["SSL://h:9093"],"host":null,"version":5,"port":-1}') is None


def test_consumer_config_has_the_defaults_of_0_8() -> None:
    config = ConsumerConfig(REQUIRED)
    assert (config.zookeeper_session_timeout_ms, config.connection_timeout_ms) == (6_000, 6_000)
    assert (config.rebalance_max_retries, config.rebalance_pause) == (4, 2.0)
    assert config.client == "g"
    assert (config.in_zookeeper, config.in_kafka) == (True, False)
    kafka = ConsumerConfig({**REQUIRED, "offsets.storage": "kafka"})
    assert (kafka.in_zookeeper, kafka.in_kafka) == (True, True)
    assert not ConsumerConfig({**REQUIRED, "offsets.storage": "kafka", "dual.commit.enabled": "false"}).in_zookeeper


@pytest.mark.parametrize(
    ("invalid", "message"),
    [
        ({"group.id": "a/b"}, "group.id"),
        ({"group.id": ""}, "group.id"),
        ({"auto.offset.reset": "earliest"}, "smallest, largest"),
        ({"fetch.wait.max.ms": "40000"}, "socket.timeout.ms"),
    ],
)
def test_invalid_value_is_rejected_with_the_config_name(invalid: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ConsumerConfig({**REQUIRED, **invalid})


def test_string_decoder_uses_serializer_encoding() -> None:
    assert StringDecoder().from_bytes("é".encode()) == "é"
    assert StringDecoder({"serializer.encoding": "latin-1"}).from_bytes(b"\xe9") == "é"
