"""JAAS lines in configs: parsing, logins of clients and brokers, and SASL listeners."""

from __future__ import annotations

import pytest

from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.jaas import Jaas, jaas, login
from ottla.errors import ConfigurationError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
LISTENERS = {"listeners": "SASL_PLAINTEXT://h:1", "sasl.enabled.mechanisms": "PLAIN"}
OPTION = "listener.name.sasl_plaintext.plain.sasl.jaas.config"


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (f'{PLAIN} required username="a" password="b";', {"username": "a", "password": "b"}),
        (f"{PLAIN} REQUIRED\n  username = 'a\"' \t password=b-1 ;  ", {"username": 'a"', "password": "b-1"}),
        (f'{PLAIN} required user_my-app.x@y="p \\" ; w";', {"user_my-app.x@y": 'p " ; w'}),
        (f"{PLAIN} required;", {}),
        (f"{PLAIN} required", {}),
    ],
)
def test_jaas_line_is_parsed_as_by_java(line: str, options: dict[str, str]) -> None:
    assert jaas(line) == Jaas("PlainLoginModule", options)


@pytest.mark.parametrize(
    "line", ["", "PlainLoginModule", f'{PLAIN} required username="hush', f"{PLAIN} required = hush;"]
)
def test_malformed_jaas_line_is_rejected_without_its_secrets(line: str) -> None:
    with pytest.raises(ValueError, match="expected a JAAS line") as raised:
        jaas(line)
    assert "hush" not in str(raised.value)


def test_client_login_accepts_plain_scram_and_oauthbearer_modules() -> None:
    for module in ("plain.PlainLoginModule", "scram.ScramLoginModule"):
        options = login(f'org.apache.kafka.common.security.{module} required username="u" password="p";').options
        assert options == {"username": "u", "password": "p"}
    assert login('x.OAuthBearerLoginModule required clientId="c";').options == {"clientId": "c"}
    with pytest.raises(ValueError, match="PlainLoginModule"):
        login('com.sun.security.auth.module.Krb5LoginModule required username="u" password="p";')


def test_plain_passwords_come_from_the_jaas_line() -> None:
    line = f'{PLAIN} required username="broker" password="b" user_broker="b" user_alice="a";'
    config = BrokerConfig({**LISTENERS, OPTION: line})
    assert config.passwords("SASL_PLAINTEXT") == {"broker": "b", "alice": "a"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"sasl.enabled.mechanisms": "GSSAPI"},
            r"sasl\.enabled\.mechanisms: .*GSSAPI is not supported on listener .*; use one of PLAIN",
        ),
        ({"sasl.enabled.mechanisms": ""}, r"sasl\.enabled\.mechanisms: no mechanism is enabled on listener"),
        ({"listener.name.sasl_plaintext.sasl.enabled.mechanisms": "X"}, r"X is not supported on listener"),
        ({}, rf"{OPTION} is required"),
        ({OPTION: "x"}, rf"{OPTION}: expected a JAAS line"),
        ({OPTION: "a.ScramLoginModule required;"}, rf"{OPTION}: expected …PlainLoginModule"),
    ],
)
def test_incomplete_sasl_listener_is_rejected(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        BrokerConfig({**LISTENERS, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"sasl\.mechanism\.inter\.broker\.protocol: GSSAPI is not enabled on the .* listener SASL_PLAINTEXT"),
        ({"sasl.mechanism.inter.broker.protocol": "PLAIN"}, rf'{OPTION}: username="…" and password="…" are required'),
    ],
)
def test_incomplete_inter_broker_login_is_rejected(options: dict[str, str], message: str) -> None:
    inter_broker = {"zookeeper.connect": "zk:1", "security.inter.broker.protocol": "SASL_PLAINTEXT"}
    with pytest.raises(ConfigurationError, match=message):
        BrokerConfig({**LISTENERS, **inter_broker, OPTION: f"{PLAIN} required;", **options})


def test_inter_broker_login_uses_username_and_password_of_the_jaas_line() -> None:
    line = f'{PLAIN} required username="broker" password="b" user_broker="b";'
    inter_broker = {"zookeeper.connect": "zk:1", "security.inter.broker.protocol": "SASL_PLAINTEXT"}
    config = BrokerConfig({**LISTENERS, **inter_broker, OPTION: line, "sasl.mechanism.inter.broker.protocol": "PLAIN"})
    mechanism, options = config.broker_login()
    assert (mechanism, options["username"], options["password"]) == ("PLAIN", "broker", "b")


def test_inter_broker_oauthbearer_login_uses_claims_of_the_jaas_line() -> None:
    option = OPTION.replace("plain.sasl", "oauthbearer.sasl")
    options = {
        **LISTENERS,
        "zookeeper.connect": "zk:1",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    }
    config = BrokerConfig({**options, option: 'x.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="b";'})
    assert config.broker_login() == ("OAUTHBEARER", {"unsecuredLoginStringClaim_sub": "b"})


def test_oauthbearer_configs_may_differ_per_listener() -> None:
    listener_config = "listener.name.sasl_plaintext.sasl.oauthbearer.expected.audience"
    options = {**LISTENERS, "sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.expected.issuer": "me"}
    tokens = BrokerConfig({**options, listener_config: "kafka"}).oauth_of("SASL_PLAINTEXT")
    assert tokens.sasl_oauthbearer_expected_audience == ("kafka",)
    assert tokens.sasl_oauthbearer_expected_issuer == "me"
    option = "sasl.oauthbearer.jwks.endpoint.url"
    with pytest.raises(ConfigurationError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url: 'keys'"):
        BrokerConfig({**options, f"listener.name.sasl_plaintext.{option}": "keys"})


def test_max_reauth_ms_may_differ_per_listener_and_mechanism() -> None:
    options = {
        "listeners": "SASL_PLAINTEXT://h:1,SASL_SSL://h:2",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "connections.max.reauth.ms": "1",
        "listener.name.sasl_ssl.connections.max.reauth.ms": "2",
        "listener.name.sasl_ssl.scram-sha-512.connections.max.reauth.ms": "3",
    }
    config = BrokerConfig(options)
    assert config.max_reauth_ms("SASL_PLAINTEXT", "SCRAM-SHA-512") == 1
    assert config.max_reauth_ms("SASL_SSL", "SCRAM-SHA-256") == 2
    assert config.max_reauth_ms("SASL_SSL", "SCRAM-SHA-512") == 3
