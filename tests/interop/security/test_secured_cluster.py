"""Three brokers on ZooKeeper that authenticate each other by certificates, passwords or tokens."""

from __future__ import annotations

import signal
import uuid
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
pytest.importorskip("kazoo")

from scripts import apache_kafka
from tests.interop.certified import identities as identities
from tests.interop.eventually import eventually as until_found
from tests.interop.kafka_on_zookeeper import WITH_ZOOKEEPER, kafka_or_skip

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic
from ottla.cli.cluster.local_cluster import LocalCluster

pytestmark = [pytest.mark.interop, pytest.mark.slow]

eventually = partial(until_found, seconds=60.0)
STORES = "ssl.keystore.type=PEM\nssl.keystore.location={key}\nssl.truststore.type=PEM\nssl.truststore.location={key}\n"
MODULES = "org.apache.kafka.common.security"
LOGIN = 'username="broker" password="secret"'
TOKEN = (
    f"{MODULES}.oauthbearer.OAuthBearerLoginModule required"
    ' unsecuredLoginStringClaim_sub="broker" unsecuredLoginLifetimeSeconds="3"'
)
SASL = (
    "listeners=SASL_SSL://localhost:{{port}}\nsecurity.inter.broker.protocol=SASL_SSL\n"
    "sasl.enabled.mechanisms={mechanism}\nsasl.mechanism.inter.broker.protocol={mechanism}\n"
    "connections.max.reauth.ms=3000\n"
    "listener.name.sasl_ssl.{name}.sasl.jaas.config={line}\n" + STORES.replace("{", "{{").replace("}", "}}")
)
SECURED = {
    "SSL": "listeners=SSL://localhost:{port}\nsecurity.inter.broker.protocol=SSL\nssl.client.auth=required\n" + STORES,
    "PLAIN": SASL.format(
        mechanism="PLAIN",
        name="plain",
        line=f'{MODULES}.plain.PlainLoginModule required {LOGIN} user_broker="secret";',
    ),
    "SCRAM-SHA-512": SASL.format(
        mechanism="SCRAM-SHA-512",
        name="scram-sha-512",
        line=f"{MODULES}.scram.ScramLoginModule required {LOGIN};",
    ),
    # tokens that are valid for three seconds, and ACLs that allow only the brokers
    "OAUTHBEARER": SASL.format(mechanism="OAUTHBEARER", name="oauthbearer", line=f"{TOKEN};")
    + "authorizer.class.name=kafka.security.authorizer.AclAuthorizer\nsuper.users=User:broker\n",
}


@pytest.fixture(scope="module", params=SECURED)
def how(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, identities: dict[str, Path], how: str) -> Iterator[LocalCluster]:
    options: dict[str, Any] = {"zookeeper.session.timeout.ms": "2000", "group.initial.rebalance.delay.ms": "0"}
    made = LocalCluster.create(tmp_path_factory.mktemp("cluster"), 3, 0, 0, options)
    for broker in made.brokers:
        with made.properties(broker).open("a") as properties:
            # the last value of a property applies
            properties.write(SECURED[how].format(port=broker.port, key=identities["broker"]))
    made.start_zookeeper()
    try:
        if how.startswith("SCRAM"):
            create_credentials(made, how)
        made.start(*made.brokers)
        yield made
    finally:
        for broker in made.brokers:
            made.send(broker, signal.SIGKILL)
        made.send_zookeeper(signal.SIGKILL)


def create_credentials(cluster: LocalCluster, mechanism: str) -> None:
    """Create the brokers' SCRAM credentials before the first of them starts, as described in Kafka's documentation."""
    kafka_or_skip(WITH_ZOOKEEPER)
    user = ("--alter", "--entity-type", "users", "--entity-name", "broker")
    password = ("--add-config", f"{mechanism}=[password=secret]")
    zookeeper = ("--zookeeper", cluster.zookeeper_connect)
    done = apache_kafka.tool("kafka.admin.ConfigCommand", *zookeeper, *user, *password, version=WITH_ZOOKEEPER)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def options(cluster: LocalCluster, identities: dict[str, Path], how: str) -> dict[str, Any]:
    """Return client configs; clients use the certificate or the password of the brokers."""
    key = str(identities["broker"])
    servers = ",".join(f"localhost:{broker.port}" for broker in cluster.brokers)
    pem = {"ssl_cafile": key, "ssl_certfile": key, "ssl_keyfile": key}
    if how == "SSL":
        return {"bootstrap_servers": servers, "security_protocol": "SSL", **pem}
    login = {"sasl_mechanism": how, "sasl_plain_username": "broker", "sasl_plain_password": "secret"}
    if how == "OAUTHBEARER":
        login = {"sasl_mechanism": how, "sasl_jaas_config": f"{TOKEN};"}
    return {"bootstrap_servers": servers, "security_protocol": "SASL_SSL", "ssl_cafile": key, **login}


def in_sync(admin: KafkaAdminClient, topic: str) -> list[set[int]]:
    return [set(p.isr) for p in admin.describe_topics([topic])[topic].partitions]


def test_records_are_replicated_and_survive_leader_failover(cluster: LocalCluster, options: dict[str, Any]) -> None:
    topic = f"safe-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(**options) as admin, KafkaProducer(**options) as producer:
        admin.create_topics(
            [NewTopic(topic, replica_assignments={p: [(p + i) % 3 for i in range(3)] for p in range(3)})]
        )
        for number in range(300):
            producer.send(topic, b"%d" % number + bytes(10_000), partition=number % 3)
        producer.flush(60)
        eventually(lambda: in_sync(admin, topic) == [{0, 1, 2}] * 3)
        victim = cluster.broker(1)
        cluster.send(victim, signal.SIGKILL)
        for number in range(300, 400):
            producer.send(topic, b"%d" % number + bytes(10_000), partition=number % 3)
        producer.flush(60)
        cluster.start(victim)
        eventually(lambda: in_sync(admin, topic) == [{0, 1, 2}] * 3)
        reading: dict[str, Any] = {"group_id": topic, "auto_offset_reset": "earliest", "consumer_timeout_ms": 30_000}
        with KafkaConsumer(topic, **options, **reading) as consumer:
            result = Counter(int(next(consumer).value.rstrip(b"\0")) for _ in range(400))
        assert result == Counter(range(400))


def test_transactions_span_brokers(options: dict[str, Any]) -> None:
    topic = f"tx-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(**options) as admin:
        admin.create_topics([NewTopic(topic, 6, 3)])
    with KafkaProducer(**options, transactional_id=topic) as producer:
        producer.init_transactions()
        for commits in (True, False, True):
            producer.begin_transaction()
            for number in range(60):
                producer.send(topic, b"%d" % commits, partition=number % 6)
            (producer.commit_transaction if commits else producer.abort_transaction)()
    reading: dict[str, Any] = {
        "isolation_level": "read_committed",
        "auto_offset_reset": "earliest",
        "consumer_timeout_ms": 30_000,
    }
    with KafkaConsumer(topic, **options, **reading) as consumer:
        assert [next(consumer).value for _ in range(120)] == [b"1"] * 120
