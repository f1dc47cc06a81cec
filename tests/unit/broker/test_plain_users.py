"""The users of SASL PLAIN on a running broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla import ConfigResource, ConfigResourceType, KafkaAdminClient
from ottla.broker.embedded import OPTIONS, Broker
from ottla.errors import InvalidConfigError, InvalidRequestError, KafkaError, SaslAuthenticationFailedError

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
ELSEWHERE = "listener.name.plaintext.plain.sasl.jaas.config"
SASL = {
    **OPTIONS,
    "listeners": "SASL_PLAINTEXT://localhost:0,PLAINTEXT://localhost:0",
    "sasl.enabled.mechanisms": "PLAIN",
    USERS: f'{MODULE} required user_alice="secret";',
    "connection.failed.authentication.delay.ms": "50",
}


class Listeners:
    """A broker with a listener for users, and one for the operator."""

    def __init__(self, broker: Broker) -> None:
        assert broker._node is not None
        self.sasl, self.plaintext = (f"localhost:{endpoint.port}" for endpoint in broker._node.endpoints)

    def authenticates(self, user: str, password: str) -> bool:
        try:
            with KafkaAdminClient(
                bootstrap_servers=self.sasl,
                security_protocol="SASL_PLAINTEXT",
                sasl_plain_username=user,
                sasl_plain_password=password,
            ) as admin:
                admin.describe_cluster()
        except SaslAuthenticationFailedError:
            return False
        return True

    def alter(self, key: str, value: str, broker: str = "0") -> None:
        with KafkaAdminClient(bootstrap_servers=self.plaintext) as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.BROKER, broker, {key: value})])


@pytest.fixture
def listeners() -> Iterator[Listeners]:
    with Broker(SASL) as broker:
        yield Listeners(broker)


def test_users_are_replaced_without_a_restart(listeners: Listeners) -> None:
    assert listeners.authenticates("alice", "secret")
    listeners.alter(USERS, f'{MODULE} required user_alice="new" user_bob="b";')
    assert not listeners.authenticates("alice", "secret")
    assert listeners.authenticates("alice", "new")
    assert listeners.authenticates("bob", "b")
    with KafkaAdminClient(bootstrap_servers=listeners.plaintext) as admin:
        (configs,) = admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "0")]).values()
    assert configs[USERS].value is None, "passwords are not shown"


@pytest.mark.parametrize(
    ("key", "value", "broker", "error", "message"),
    [
        (USERS, "no login module", "0", InvalidConfigError, "jaas"),
        (
            USERS.replace("sasl_plaintext", "plaintext"),
            f'{MODULE} required user_a="b";',
            "0",
            InvalidConfigError,
            "PLAIN",
        ),
        (USERS, f'{MODULE} required user_a="b";', "", InvalidRequestError, "default cluster level"),
    ],
)
def test_users_that_cannot_be_set_are_rejected(
    listeners: Listeners, key: str, value: str, broker: str, error: type[KafkaError], message: str
) -> None:
    with pytest.raises(error, match=message):
        listeners.alter(key, value, broker)
    assert listeners.authenticates("alice", "secret")
