"""Options of the producer: each has a test of its effect."""

from __future__ import annotations

import logging
import random
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from scripts.tables import DOCS
from tests.unit.client.marked_options import marked, missing_mark
from tests.unit.client.scripted import SILENCE, ScriptedBroker

from ottla import KafkaProducer
from ottla.client.core.connections import Connections
from ottla.client.core.handshake import sasl_login
from ottla.client.core.metadata import Cluster, PartitionInfo, TopicInfo
from ottla.client.producer.core import ProducerCore
from ottla.clock import ManualClock
from ottla.config.client import ClientConfig
from ottla.config.producer import ProducerConfig
from ottla.errors import ConfigurationError, KafkaTimeoutError, SslAuthenticationError
from ottla.metrics.metrics import Metrics
from ottla.model import Node
from ottla.net.client.channel_metrics import ChannelMetrics
from ottla.net.client.sasl_login import Login
from ottla.protocol.fields import ZERO_UUID
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.records.batch import read_header

TESTED = marked("test_*.py", "../net/test_tls.py", "../net/sasl/test_tokens.py")


@pytest.mark.parametrize("option", sorted({*ProducerConfig.options, *ClientConfig.options}))
def test_every_option_is_documented_and_has_a_test(option: str) -> None:
    assert option in TESTED, missing_mark(option)
    assert f"| `{option}` |" in (DOCS / "options.md").read_text(), "run make docs"


def producer(broker: ScriptedBroker, **options: Any) -> KafkaProducer:
    return KafkaProducer(**{"bootstrap_servers": broker.address, "linger_ms": 0, "retry_backoff_ms": 10, **options})


def failure(code: int) -> ProduceResponse:
    response = PartitionProduceResponse(index=0, error_code=code, base_offset=-1)
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[response])])


def until(condition: Callable[[], bool]) -> None:
    """Wait until the I/O thread has met a condition."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "the condition was not met in time"
        time.sleep(0.001)


def idle(p: KafkaProducer) -> None:
    """Let the I/O thread run all tasks that are ready."""
    for _ in range(5):
        p._io.run(_nothing())


async def _nothing() -> None:
    pass


# Time


@pytest.mark.option("linger.ms")
def test_batch_is_sent_after_linger_ms(broker: ScriptedBroker) -> None:
    clock = ManualClock()
    with producer(broker, linger_ms=1000, clock=clock) as p:
        future = p.send("t", b"v")
        clock.advance(999)
        idle(p)
        assert broker.requests_of(ProduceRequest) == []
        clock.advance(1)
        assert future.get(10).timestamp == 1_700_000_000_000, "the time of send()"
        p.send_batch("t", [b"a"])
        p.flush(10)
    assert read_header(broker.topics["t"][0][-1]).max_timestamp == 1_700_000_001_000


@pytest.mark.option("retry.backoff.ms", "retry.backoff.max.ms")
def test_batch_is_retried_with_exponential_backoff_up_to_the_maximum(broker: ScriptedBroker) -> None:
    clock = ManualClock()
    broker.on(ProduceRequest, lambda _: failure(6), times=4)
    with producer(broker, retry_backoff_ms=1000, retry_backoff_max_ms=3000, clock=clock) as p:
        future = p.send("t", b"v")
        for tries, pause in enumerate((1000, 2000, 3000, 3000), 1):
            until(lambda: p.metrics()["producer-metrics"]["record-retry-total"] == tries)  # noqa: B023
            clock.advance(pause - 1)
            idle(p)
            assert len(broker.requests_of(ProduceRequest)) == tries
            clock.advance(1)
        assert future.get(10).offset == 0


@pytest.mark.option("delivery.timeout.ms")
def test_batch_in_flight_expires_after_delivery_timeout(broker: ScriptedBroker) -> None:
    clock = ManualClock()
    broker.on(ProduceRequest, lambda _: SILENCE)
    with producer(broker, buffer_memory=20_000, clock=clock) as p:
        future = p.send("t", b"v")
        broker.wait_for(lambda: bool(broker.requests_of(ProduceRequest)))
        clock.advance(119_999)
        idle(p)
        assert not future.done()
        clock.advance(1)
        with pytest.raises(KafkaTimeoutError, match="not delivered within 120 s"):
            future.get(10)
        assert p.metrics()["producer-metrics"]["buffer-available-bytes"] < 20_000, "the socket may still read from it"
        p.close(timeout=0)
        assert p.metrics()["producer-metrics"]["buffer-available-bytes"] == 20_000


@pytest.mark.option("delivery.timeout.ms")
def test_delivery_timeout_is_at_least_linger_plus_request_timeout() -> None:
    config = ProducerConfig.from_keywords(bootstrap_servers="h:1", request_timeout_ms=200_000, linger_ms=7)
    assert config.delivery_timeout_ms == 200_007
    with pytest.raises(ConfigurationError, match=r"delivery\.timeout\.ms: 100"):
        ProducerConfig.from_keywords(bootstrap_servers="h:1", delivery_timeout_ms=100)


@pytest.mark.option("metadata.max.age.ms")
def test_metadata_is_refreshed_after_metadata_max_age(broker: ScriptedBroker) -> None:
    clock = ManualClock()
    with producer(broker, metadata_max_age_ms=5000, clock=clock) as p:
        p.send("t", b"v").get(10)
        until(lambda: 5.0 in clock.waited_for)
        before = len(broker.requests_of(MetadataRequest))
        clock.advance(4999)
        idle(p)
        assert len(broker.requests_of(MetadataRequest)) == before
        clock.advance(1)
        broker.wait_for(lambda: len(broker.requests_of(MetadataRequest)) == before + 1)


@pytest.mark.option("request.timeout.ms", "socket.connection.setup.timeout.ms")
def test_connection_setup_timeout_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options: dict[str, Any] = {
            "security_protocol": "SSL",
            "socket_connection_setup_timeout_ms": 20,
            "max_block_ms": 1000,
        }
        with KafkaProducer(bootstrap_servers=f"127.0.0.1:{silent.getsockname()[1]}", **options) as p:
            with pytest.raises(KafkaTimeoutError, match=r"no connection within 0\.[01]"):
                p.send("t", b"v")


def create_connections(**options: Any) -> Connections:
    config = ClientConfig.from_keywords(**{"bootstrap_servers": "h:1", **options})
    return Connections(config, "me", dict, ChannelMetrics(Metrics(), "test"))


@pytest.mark.option("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms")
def test_connection_setup_timeout_grows_with_each_failure() -> None:
    connections = create_connections(
        socket_connection_setup_timeout_ms=1000, socket_connection_setup_timeout_max_ms=3000
    )
    for failures, seconds in enumerate((1, 2, 3, 3)):
        assert 0.8 * seconds <= connections._setup_timeout.backoff(failures) <= 1.2 * seconds


@pytest.mark.option("reconnect.backoff.ms", "reconnect.backoff.max.ms")
def test_unreachable_broker_is_reconnected_to_after_a_backoff(broker: ScriptedBroker) -> None:
    began, failures = time.monotonic(), 0
    with KafkaProducer(
        bootstrap_servers="127.0.0.1:1", reconnect_backoff_ms=40, reconnect_backoff_max_ms=60, max_block_ms=300
    ) as p:
        while failures < 2:
            with pytest.raises(KafkaTimeoutError):
                p.send("t", b"v")
            (state,) = p._core.connections._reconnects.values()
            failures = state.failures
        first, later = (p._core.connections._backoff.backoff(failures) for failures in (0, 9))
    assert 0.032 <= first <= 0.048 <= later <= 0.06
    assert failures <= 1 + (time.monotonic() - began) / 0.032


# Bootstrap and metadata


@pytest.mark.option("client.id")
def test_client_id_is_sent_and_has_a_unique_default(broker: ScriptedBroker) -> None:
    for arguments, name in (({"client_id": "me"}, "me"), ({"transactional_id": "x"}, "producer-x")):
        with producer(broker, **arguments) as p:
            assert p.partitions_for("t") == {0}
        assert broker.headers[-1].client_id == name
    with producer(broker) as p, producer(broker) as q:
        assert p._core.client_id != q._core.client_id


@pytest.mark.option("client.dns.lookup")
def test_bootstrap_servers_are_resolved_to_canonical_names(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def names(loop: Any, host: str, port: int) -> list[str]:
        return ["127.0.0.1"] if host == "alias" else []

    monkeypatch.setattr("ottla.client.core.connections.canonical_names_of", names)
    lookup = "resolve_canonical_bootstrap_servers_only"
    with producer(broker, bootstrap_servers=f"alias:{broker.port}", client_dns_lookup=lookup) as p:
        p.send("t", b"v").get(10)


@pytest.mark.option("client.dns.lookup")
def test_every_address_of_a_host_is_tried(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def addresses(loop: Any, host: str, port: int) -> list[Any]:
        return [(socket.AF_INET, ("127.0.0.1", 1)), (socket.AF_INET, ("127.0.0.1", port))]

    monkeypatch.setattr("ottla.net.client.connect.addresses_of", addresses)
    with producer(broker, bootstrap_servers=f"anything:{broker.port}") as p:
        p.send("t", b"v").get(10)


@pytest.mark.option("metadata.recovery.strategy")
def test_metadata_recovery_strategy_decides_whether_the_client_rebootstraps(broker: ScriptedBroker) -> None:
    for strategy, max_block_ms in (("rebootstrap", 10_000), ("none", 300)):
        with producer(
            broker, metadata_recovery_strategy=strategy, reconnect_backoff_ms=1, max_block_ms=max_block_ms
        ) as p:
            p._core.metadata.cluster = Cluster({9: Node(9, "127.0.0.1", 1)})
            if strategy == "rebootstrap":
                assert p.partitions_for("t") == {0}
            else:
                with pytest.raises(KafkaTimeoutError):
                    p.partitions_for("t")


@pytest.mark.option("metadata.recovery.rebootstrap.trigger.ms")
def test_client_without_metadata_rebootstraps_after_the_trigger_time(broker: ScriptedBroker) -> None:
    # A known broker that accepts connections and responds with errors only.
    with ScriptedBroker() as other, producer(broker, metadata_recovery_rebootstrap_trigger_ms=50) as p:
        other.add_topic("t", 9)
        fail = lambda request: type(request).RESPONSE(error_code=8)  # noqa: E731
        other.on(MetadataRequest, fail, times=10_000)
        p._core.metadata.cluster = Cluster({9: Node(9, other.host, other.port)})
        assert p.partitions_for("t") == {0}
        assert other.requests_of(MetadataRequest)


@pytest.mark.option("metadata.recovery.strategy")
def test_rebootstrap_required_error_makes_the_client_rebootstrap(broker: ScriptedBroker) -> None:
    with ScriptedBroker() as other, producer(broker) as p:
        other.on(MetadataRequest, lambda request: type(request).RESPONSE(error_code=129))
        p._core.metadata.cluster = Cluster({9: Node(9, other.host, other.port)})
        assert p.partitions_for("t") == {0}
        assert len(other.requests_of(MetadataRequest)) == 1


@pytest.mark.option("allow.auto.create.topics")
def test_metadata_request_allows_auto_topic_creation_if_configured(broker: ScriptedBroker) -> None:
    for allowed in (True, False):
        with producer(broker, allow_auto_create_topics=allowed) as p:
            p.partitions_for("t")
        assert broker.requests_of(MetadataRequest)[-1].allow_auto_topic_creation is allowed


# Sockets and security


@pytest.mark.option("receive.buffer.bytes", "send.buffer.bytes", "socket.options")
def test_socket_options_are_applied(broker: ScriptedBroker) -> None:
    idle_seconds = (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77)
    sizes = {"receive_buffer_bytes": 50_000, "send_buffer_bytes": 60_000}
    with producer(broker, **sizes, socket_options=[idle_seconds]) as p:
        p.send("t", b"v").get(10)
        sock = next(iter(p._core.connections._ready.values())).channel._socket
        assert sock is not None
        # Linux doubles the requested size.
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) in (50_000, 100_000)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) in (60_000, 120_000)
        assert sock.getsockopt(*idle_seconds[:2]) == 77
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


@pytest.mark.option("security.protocol")
def test_send_with_ssl_to_a_plaintext_server_fails_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def respond() -> None:
            sock, _ = plain.accept()
            with sock:
                sock.recv(1)
                sock.sendall(b"HTTP/1.0 400 what is this\r\n")

        threading.Thread(target=respond, daemon=True).start()
        address = f"127.0.0.1:{plain.getsockname()[1]}"
        with KafkaProducer(bootstrap_servers=address, security_protocol="SSL", max_block_ms=60_000) as p:
            with pytest.raises(SslAuthenticationError, match="WRONG_VERSION|RECORD_LAYER"):
                p.send("t", b"v")


@pytest.mark.option("sasl.jaas.config")
def test_jaas_config_sets_user_and_password() -> None:
    line = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a\\"b" password="p w";'
    config = ClientConfig.from_kafka({"bootstrap.servers": "h:1", "sasl.jaas.config": line})
    assert config.credentials == ('a"b', "p w")
    assert "p w" not in repr(config)
    with pytest.raises(ConfigurationError, match=r"sasl\.jaas\.config.*PlainLoginModule"):
        ClientConfig.from_kafka({"bootstrap.servers": "h:1", "sasl.jaas.config": "ScramLoginModule required;"})


@pytest.mark.option("sasl.tokenauth")
def test_credentials_may_be_those_of_a_delegation_token() -> None:
    jaas = 'ScramLoginModule required username="id" password="hmac" tokenauth="true";'
    for configs in (
        {"sasl.plain.username": "id", "sasl.plain.password": "hmac", "sasl.tokenauth": True},
        {"sasl.jaas.config": jaas},
    ):
        sasl = {"bootstrap.servers": "h:1", "security.protocol": "SASL_SSL", **configs}
        config = ClientConfig.from_kafka({**sasl, "sasl.mechanism": "SCRAM-SHA-256"})
        assert sasl_login(config) == Login("SCRAM-SHA-256", "id", "hmac", by_token=True)
        with pytest.raises(ConfigurationError, match="PLAIN does not work with a delegation token"):
            sasl_login(ClientConfig.from_kafka(sasl))
    assert not ClientConfig.from_keywords().by_token
    without = ClientConfig.from_kafka({"bootstrap.servers": "h:1", "sasl.jaas.config": jaas.replace("true", "false")})
    assert not without.by_token


# Batches


@pytest.mark.option("acks", "timeout.ms")
def test_acks_are_sent_to_the_broker(broker: ScriptedBroker) -> None:
    for arguments, requests in ((1, 1), ("all", -1), (-1, -1)):
        with producer(broker, acks=arguments) as p:
            p.send("t", b"v").get(10)
        assert broker.requests_of(ProduceRequest)[-1].acks == requests


@pytest.mark.option("batch.size")
def test_batch_size_limits_the_records_of_a_batch(broker: ScriptedBroker) -> None:
    for size, value, expected in (
        (0, b"", [1] * 6),
        (0, bytes(300), [1] * 6),
        (1000, bytes(300), [3, 3]),
        (100_000, bytes(300), [6]),
    ):
        broker.add_topic("t")
        with producer(broker, batch_size=size, linger_ms=60_000) as p:
            for _ in range(6):
                p.send("t", value)
            p.flush(10)
        assert [read_header(batch).count for batch in broker.topics["t"][0]] == expected


@pytest.mark.option("max.request.size")
def test_max_request_size_limits_the_batches_of_a_request(broker: ScriptedBroker) -> None:
    broker.add_topic("many", 4)
    with producer(broker, max_request_size=2000, linger_ms=60_000) as p:
        for partition in range(4):
            p.send("many", bytes(800), partition=partition)
        p.flush(10)
    sizes = [sum(len(t.partition_data) for t in r.topic_data) for r in broker.requests_of(ProduceRequest)]
    assert sizes == [2, 2]


@pytest.mark.option("max.in.flight.requests.per.connection")
def test_requests_in_flight_are_limited_per_connection(broker: ScriptedBroker) -> None:
    for most in (1, 3):
        broker.add_topic("t")
        broker.requests.clear()
        broker.on(ProduceRequest, lambda _: SILENCE, times=1000)
        p = producer(broker, max_in_flight_requests_per_connection=most, batch_size=0)
        for _ in range(10):
            p.send("t", bytes(100))
        broker.wait_for(lambda: len(broker.requests_of(ProduceRequest)) == most)  # noqa: B023
        idle(p)
        assert len(broker.requests_of(ProduceRequest)) == most
        p.close(timeout=0)


TEXT = random.Random(1).randbytes(400) * 30 + bytes(random.Random(2).choices(b"etaoin shrdlu", k=60_000))


@pytest.mark.parametrize(("codec", "low", "high"), [("gzip", 1, 9), ("lz4", 1, 17), ("zstd", -50, 19)])
@pytest.mark.option("compression.gzip.level", "compression.lz4.level", "compression.zstd.level", "compression.level")
def test_higher_compression_level_makes_smaller_batches(
    broker: ScriptedBroker, codec: str, low: int, high: int
) -> None:
    def size(**options: Any) -> int:
        broker.add_topic("t")
        with producer(broker, compression_type=codec, batch_size=200_000, **options) as p:
            p.send("t", TEXT).get(10)
        return len(broker.topics["t"][0][0])

    own = f"compression_{codec}_level"
    assert size(**{own: high}) < size(**{own: low})
    assert size(compression_level=high, **{own: low}) == size(**{own: high})


@pytest.mark.parametrize("options", [{"compression_gzip_level": 0}, {"compression_lz4_level": 18}, {"acks": 2}])
def test_invalid_compression_level_or_acks_is_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="is not allowed"):
        ProducerConfig.from_keywords(bootstrap_servers="h:1", **options)


# Partitions


def core_with(**options: Any) -> ProducerCore:
    """Return a producer with metadata of topic t, whose partitions 0 and 1 are led by nodes 1 and 2."""
    core = ProducerCore(ProducerConfig.from_keywords(bootstrap_servers="h:1", batch_size=1, **options), lambda: None)
    infos = tuple(PartitionInfo("t", i, i + 1, 0, (i + 1,), (i + 1,), ()) for i in range(2))
    nodes = {n: Node(n, "h", n) for n in (1, 2)}
    core.metadata.cluster = Cluster(nodes, {"t": TopicInfo("t", ZERO_UUID, False, infos)})
    core.metadata.version = 1
    return core


def chosen_partitions(core: ProducerCore) -> set[int]:
    queues = core.queues("t", None)
    assert queues is not None
    return {core.sticky(queues, 100) for _ in range(60)}


@pytest.mark.option("partitioner.availability.timeout.ms")
def test_unavailable_broker_gets_no_records_without_a_key() -> None:
    core = core_with(partitioner_availability_timeout_ms=1000)
    core.accumulator.note_ready(1, 0.0, taken=True)
    core.accumulator.note_ready(1, 1.0, taken=False)
    assert chosen_partitions(core) == {0, 1}
    core.accumulator.note_ready(1, 1.1, taken=False)
    assert chosen_partitions(core) == {1}
    core.accumulator.note_ready(1, 1.2, taken=True)
    assert chosen_partitions(core) == {0, 1}
    unaware = core_with()
    unaware.accumulator.note_ready(1, 0.0, taken=True)
    unaware.accumulator.note_ready(1, 99.0, taken=False)
    assert chosen_partitions(unaware) == {0, 1}


@pytest.mark.option("partitioner.availability.timeout.ms")
def test_all_partitions_are_chosen_if_no_broker_is_available() -> None:
    core = core_with(partitioner_availability_timeout_ms=1000)
    for node in (1, 2):
        core.accumulator.note_ready(node, 0.0, taken=True)
        core.accumulator.note_ready(node, 9.0, taken=False)
    assert chosen_partitions(core) == {0, 1}


@pytest.mark.option("partitioner.adaptive.partitioning.enable")
def test_longer_queues_are_chosen_less_often_if_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    output: list[bool] = []

    def choose(available: Any, queued: Any) -> int:
        output.append(queued is not None)
        return 0

    monkeypatch.setattr("ottla.client.producer.partitioner.choose_partition", choose)
    for requested in (True, False):
        chosen_partitions(core_with(partitioner_adaptive_partitioning_enable=requested))
        assert set(output) == {requested}
        output.clear()


@pytest.mark.option("partitioner.ignore.keys")
def test_keys_are_ignored_if_configured(broker: ScriptedBroker) -> None:
    broker.add_topic("many", 50)
    with producer(broker, partitioner_ignore_keys=True, linger_ms=60_000) as p:
        futures = [p.send("many", b"v", key=b"%d" % i) for i in range(20)]
        p.flush(10)
        assert len({f.get(0).partition for f in futures}) == 1


JAVA_PACKAGE = "org.apache.kafka.clients.producer."


@pytest.mark.option("partitioner", "partitioner.class")
def test_partitioner_may_be_named_by_ottlas_or_javas_name(broker: ScriptedBroker) -> None:
    broker.add_topic("many", 4)

    def partitions(**options: Any) -> list[int]:
        with producer(broker, **options) as p:
            return [p.send("many", b"v", key=b"same").get(10).partition for _ in range(8)]

    assert len(set(partitions(partitioner="default"))) == 1
    assert sorted(partitions(partitioner="roundrobin")) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert sorted(partitions(partitioner_class=f"{JAVA_PACKAGE}RoundRobinPartitioner")) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert set(partitions(partitioner="random")) <= {0, 1, 2, 3}
    assert partitions(partitioner=lambda key, all_partitions, available: 3) == [3] * 8


# Transactions


@pytest.mark.option("transaction.timeout.ms", "transaction.two.phase.commit.enable")
def test_transaction_timeout_is_sent_to_the_coordinator(broker: ScriptedBroker) -> None:
    result = FindCoordinatorResponse(coordinators=[Coordinator(key="x", node_id=7, host=broker.host, port=broker.port)])
    broker.on(FindCoordinatorRequest, lambda _: result, times=10)
    for options, expected in (
        ({"transaction_timeout_ms": 1234}, (1234, False)),
        ({"transaction_two_phase_commit_enable": True}, (0x7FFFFFFF, True)),
    ):
        with producer(broker, transactional_id="x", **options) as p:
            p.init_transactions()
        requests = broker.requests_of(InitProducerIdRequest)[-1]
        assert (requests.transaction_timeout_ms, requests.enable_2pc) == expected


@pytest.mark.option("transaction.two.phase.commit.enable", "transactional.id", "enable.idempotence")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transaction_timeout_ms": 1, "transaction_two_phase_commit_enable": True}, r"transaction\.timeout\.ms"),
        ({"transactional_id": ""}, r"transactional\.id: ''"),
        ({"transactional_id": "x", "enable_idempotence": False}, r"transactional\.id needs enable\.idempotence"),
        (
            {"transactional_id": "x", "acks": 1},
            r"acks=1 cannot be used with transactional\.id: set acks to all, or leave",
        ),
        ({"enable_idempotence": True, "retries": 0}, r"retries=0 cannot be used with enable\.idempotence: set"),
        ({"enable_idempotence": True, "max_in_flight_requests_per_connection": 6}, r"connection=6 .* at most 5"),
    ],
)
def test_conflicting_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ProducerConfig.from_keywords(bootstrap_servers="h:1", **options)


# Options without effect


@pytest.mark.parametrize(
    "name", ["ssl.provider", "sasl.kerberos.kinit.cmd", "auto.include.jmx.reporter", "config.providers.x.class"]
)
def test_configs_without_effect_are_accepted_and_logged(name: str, caplog: pytest.LogCaptureFixture) -> None:
    ProducerConfig.from_kafka({"bootstrap.servers": "h:1", name: "x"})
    assert f"Ignoring producer configs without effect: {name} (" in caplog.text
    caplog.clear()
    ProducerConfig.from_keywords(bootstrap_servers="h:1", **{name.replace(".", "_"): "x"})
    assert f"Ignoring producer configs without effect: {name} (" in caplog.text


def test_unknown_config_is_logged_with_the_nearest_name(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    ProducerConfig.from_kafka({"bootstrap.servers": "h:1", "linger.msec": "x"})
    assert "linger.msec; did you mean linger.ms?" in caplog.text
