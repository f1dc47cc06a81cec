"""Our clients authenticate to Apache Kafka with each SASL mechanism."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from scripts import apache_kafka
from tests.interop import kafka_jars
from tests.interop.kafka_jars import server

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic
from ottla.client.admin.security.scram import ScramMechanism, UserScramCredentialUpsertion
from ottla.errors import SaslAuthenticationFailedError
from ottla.net.ports import free_port

pytestmark = pytest.mark.interop

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="secret";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"

OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of an Apache Kafka node with the user ann; connections must re-authenticate after two seconds."""
    if reason := apache_kafka.missing():
        pytest.skip(f"Apache Kafka: {reason}")
    folder, port = tmp_path_factory.mktemp("sasl"), free_port(in_a_row=2)
    command = kafka_jars.prepare_node(folder / "node", port)
    with (folder / "node" / "server.properties").open("a") as properties:
        # The last value of a property applies.
        properties.write(
            f"listeners=SASL_PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}\n"
            f"advertised.listeners=SASL_PLAINTEXT://127.0.0.1:{port}\n"
            "listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT\n"
            "inter.broker.listener.name=SASL_PLAINTEXT\n"
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER\n"
            "sasl.mechanism.inter.broker.protocol=PLAIN\n"
            "connections.max.reauth.ms=2000\n"
            f'listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN[:-1]} username="ann" password="secret";\n'
            f"listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config={SCRAM}\n"
            f"listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config={SCRAM}\n"
            f"listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config={OAUTH};\n"
        )
    with server(command, port, folder / "out.txt"):
        with KafkaAdminClient(**options(f"127.0.0.1:{port}", "PLAIN")) as admin:
            for number in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                admin.alter_user_scram_credentials([UserScramCredentialUpsertion("ann", number, "secret")])
        yield f"127.0.0.1:{port}"


def options(address: str, mechanism: str, password: str = "secret") -> dict[str, Any]:
    login = {"sasl_mechanism": mechanism, "sasl_plain_username": "ann", "sasl_plain_password": password}
    if mechanism == "OAUTHBEARER":
        claims = 'unsecuredLoginStringClaim_sub="ann" unsecuredLoginLifetimeSeconds="2" extension_site="x"'
        login = {"sasl_mechanism": mechanism, "sasl_jaas_config": f"{OAUTH} {claims};"}
    return {"bootstrap_servers": address, "security_protocol": "SASL_PLAINTEXT", **login}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_records_are_sent_and_read_beyond_the_session_lifetime(secured: str, mechanism: str) -> None:
    how, topic = options(secured, mechanism), f"t-{mechanism}"
    with KafkaAdminClient(**how) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    with KafkaProducer(**how) as producer:
        end = time.monotonic() + 3  # longer than connections.max.reauth.ms
        number = 0
        while time.monotonic() < end:
            producer.send(topic, b"%d" % number).get(30)
            number += 1
    reading: dict[str, Any] = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 30_000, "group_id": topic}
    with KafkaConsumer(topic, **how, **reading) as consumer:
        assert [int(next(consumer).value) for _ in range(number)] == list(range(number))


def test_rejected_token_is_reported(secured: str) -> None:
    how = options(secured, "OAUTHBEARER")
    how |= {"sasl_jaas_config": None, "sasl_oauth_token_provider": lambda: "eyJhbGciOiJub25lIn0.e30."}
    with KafkaProducer(**how) as producer:
        with pytest.raises(SaslAuthenticationFailedError, match="invalid_token"):
            producer.send("t", b"v").get(30)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_wrong_password_is_reported(secured: str, mechanism: str) -> None:
    with KafkaProducer(**options(secured, mechanism, "wrong")) as producer:
        with pytest.raises(SaslAuthenticationFailedError):
            producer.send("t", b"v").get(30)
