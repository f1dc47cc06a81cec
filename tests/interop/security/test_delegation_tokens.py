"""Delegation tokens of Ottla and Apache Kafka: tools, clients that authenticate with a token, a shared ZooKeeper."""

from __future__ import annotations

import re
import uuid
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.interop.eventually import eventually
from tests.interop.kafka_jars import prepare_node, run_tool, server
from tests.interop.kafka_on_zookeeper import WITH_ZOOKEEPER, kafka_on_zookeeper, kafka_or_skip
from tests.interop.secured import Access, Copy, java, ours

from ottla import Broker, KafkaAdminClient, NewTopic
from ottla.cli.main import main
from ottla.client.admin.security.delegation_tokens import DelegationToken
from ottla.net.ports import free_port
from ottla.zookeeper_server import ZooKeeperServer

pytestmark = pytest.mark.interop

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MODULES = "org.apache.kafka.common.security"
TOKENS = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": ",".join(("PLAIN", *MECHANISMS)),
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{MODULES}.plain.PlainLoginModule required user_ann="ann" user_bob="bob";'
    ),
    **{
        f"listener.name.sasl_plaintext.{name.lower()}.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;"
        for name in MECHANISMS
    },
    "delegation.token.secret.key": "the same on all brokers",
}
SECONDS = 20
VALUES = [f"v{i}" for i in range(20)]
TOOL = "org.apache.kafka.tools.DelegationTokenCommand"


def listeners(port: int) -> dict[str, str]:
    return {"listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{port + 1}"}


def sasl_address(broker: Broker) -> str:
    assert broker._node is not None
    return next(f"127.0.0.1:{e.port}" for e in broker._node.endpoints if e.protocol == "SASL_PLAINTEXT")


def ottla_configs(**more: object) -> dict[str, object]:
    configs = {name: value for name, value in TOKENS.items() if name != "listener.security.protocol.map"}
    return {**configs, "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0", **more}


@pytest.fixture(scope="module", params=["ottla", "kafka-4.3.1", "kafka-3.9.2"])
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeperServer
) -> Iterator[str]:
    """Address of the SASL listener of a broker."""
    kind, directory, port = request.param, tmp_path_factory.mktemp("kafka"), free_port(in_a_row=3)
    sasl = f"127.0.0.1:{port + 1}"
    if kind == "ottla":
        with Broker(ottla_configs()) as broker:
            yield sasl_address(broker)
        return
    version = kind.removeprefix("kafka-")
    kafka_or_skip(version)
    if version == WITH_ZOOKEEPER:
        with kafka_on_zookeeper(directory, f"{zookeeper.connect}/tokens", {**TOKENS, **listeners(port)}, port):
            yield sasl
        return
    names = listeners(port)["listeners"]
    configs = {
        **TOKENS,
        "listeners": f"{names},CONTROLLER://127.0.0.1:{port + 2}",
        "advertised.listeners": names,
        "controller.quorum.voters": f"1@127.0.0.1:{port + 2}",
    }
    command = prepare_node(directory, port, version, configs)
    with server(command, port, directory / "out.txt", kill=True):
        yield sasl


def login(address: str, user: str) -> Access:
    return Access(address, "SASL_PLAINTEXT", Path(), None, "PLAIN", user, user)


def wait_for(admin: KafkaAdminClient, token: DelegationToken, expiry: int | None) -> None:
    """Wait until the token has this expiry timestamp on the broker; None: until it does not exist."""

    def current_expiry() -> int | None:
        tokens = {t.token_id: t.expiry_timestamp for t in admin.describe_delegation_token()}
        return tokens.get(token.token_id)

    eventually(lambda: current_expiry() == expiry, SECONDS)


def token_login(address: str, token: DelegationToken, mechanism: str) -> Access:
    hmac = b64encode(token.hmac).decode()
    return Access(address, "SASL_PLAINTEXT", Path(), None, mechanism, token.token_id, hmac, by_token=True)


@pytest.fixture
def ann(address: str) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(**login(address, "ann").python) as admin:
        yield admin


@pytest.fixture
def config_file(address: str, tmp_path: Path) -> str:
    path = tmp_path / "ann.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in login(address, "ann").java.items()))
    return str(path)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("copy", [java, ours], ids=lambda copy: copy.__name__)
def test_client_authenticates_with_a_delegation_token(
    copy: Copy, mechanism: str, address: str, ann: KafkaAdminClient, tmp_path: Path
) -> None:
    token = ann.create_delegation_token()
    topic = f"{copy.__name__}-{uuid.uuid4().hex[:8]}"
    ann.create_topics([NewTopic(topic, 1, 1)])
    wait_for(ann, token, token.expiry_timestamp)
    assert copy(token_login(address, token, mechanism), topic, VALUES, tmp_path) == VALUES


@pytest.mark.compatibility("Kafka's tools", "delegation tokens", "DelegationTokenCommand, with ottla delegation-tokens")
def test_ottla_delegation_tokens_prints_the_output_of_kafka_delegation_tokens(
    address: str, config_file: str, ann: KafkaAdminClient, capsys: pytest.CaptureFixture[str]
) -> None:
    def theirs(*arguments: str) -> list[str]:
        done = run_tool(TOOL, *connection, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    def mine(*arguments: str) -> list[str]:
        capsys.readouterr()
        assert main(["delegation-tokens", *connection, *arguments]) == 0
        return capsys.readouterr().out.splitlines()

    def remove_all() -> None:
        for token in ann.describe_delegation_token():
            ann.expire_delegation_token(token.hmac)
            wait_for(ann, token, None)

    connection = ("--bootstrap-server", address, "--command-config", config_file)
    create = ("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    reported = []
    for tool, other in ((theirs, mine), (mine, theirs)):
        remove_all()
        created = tool(*create, "--renewer-principal", "User:carl")
        eventually(ann.describe_delegation_token, SECONDS)
        (token,) = ann.describe_delegation_token()
        assert created[-1].startswith(token.token_id)
        hmac = ("--hmac", b64encode(token.hmac).decode())
        renewed = tool("--renew", *hmac, "--renew-time-period", "3600000")
        wait_for(ann, token, ann.renew_delegation_token(token.hmac, 3_600_000))
        # without an owner Kafka's tool lists no token, contrary to its help (it sends an empty list of owners)
        by_owner = ("--describe", "--owner-principal", "User:ann", "--owner-principal", "User:x")
        described = tool(*by_owner)
        assert other(*by_owner) == described
        expiring = tool("--expire", *hmac, "--expiry-time-period", "7200000")
        expired = tool("--expire", *hmac, "--expiry-time-period", "-1")
        wait_for(ann, token, None)
        assert other(*by_owner) == tool(*by_owner)
        reported.append([masked(line) for line in (*created, *renewed, *described, *expiring, *expired)])
    assert reported[0] == reported[1]


def masked(line: str) -> str:
    """Return a line without the parts that differ between two tokens."""
    line = re.sub(r"^[\w-]{22} ", "ID ", re.sub(r"tokenId : .*", "tokenId : ID", line))
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d", "DATE", re.sub(r"[\w+/]{80,}=*", "HMAC", line))


def test_ottla_and_kafka_brokers_share_delegation_tokens_in_zookeeper(
    tmp_path: Path, zookeeper: ZooKeeperServer
) -> None:
    kafka_or_skip(WITH_ZOOKEEPER)
    connect, port = f"{zookeeper.connect}/shared-tokens", free_port(in_a_row=2)
    with ExitStack() as stack:
        stack.enter_context(kafka_on_zookeeper(tmp_path, connect, {**TOKENS, **listeners(port)}, port))
        configs = ottla_configs(**{"broker.id": 1, "zookeeper.connect": connect, "apache.kafka.brokers.enable": True})
        broker = stack.enter_context(Broker(configs))
        addresses = (f"127.0.0.1:{port + 1}", sasl_address(broker))
        kafka, own = (stack.enter_context(KafkaAdminClient(**login(a, "ann").python)) for a in addresses)
        made = []
        for creator, other, at in ((kafka, own, addresses[1]), (own, kafka, addresses[0])):
            token = creator.create_delegation_token(["User:bob"])
            made.append(token)
            wait_for(other, token, token.expiry_timestamp)
            for mechanism in MECHANISMS:
                with KafkaAdminClient(**token_login(at, token, mechanism).python) as by_token:
                    assert by_token.describe_cluster().nodes
            wait_for(creator, token, other.renew_delegation_token(token.hmac, 60_000))
        for token, remover, other in zip(made, (own, kafka), (kafka, own), strict=True):
            remover.expire_delegation_token(token.hmac)
            wait_for(other, token, None)
