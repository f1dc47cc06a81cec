"""Validation of OAUTHBEARER tokens by a listener."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from tests.unit.net import certificates

from ottla import KafkaConsumer, KafkaProducer
from ottla.broker.embedded import OPTIONS, Broker
from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.oauth import OAuthCheckConfig
from ottla.errors import ConfigurationError, SaslAuthenticationFailedError, StartupError
from ottla.security.sasl import jwt_validator
from ottla.security.sasl.jwt_validator import JwtValidator, UnsecuredJwtValidator
from ottla.security.sasl.oauthbearer import InvalidTokenError
from ottla.security.sasl.token_provider import b64url_encode, jaas_tls_context

NOW = 1000.0
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def unsigned(header: Any = None, **claims: Any) -> str:
    return (
        f"{b64url_encode(json.dumps(header or {'alg': 'none'}).encode())}.{b64url_encode(json.dumps(claims).encode())}."
    )


class Issuer:
    """An issuer of tokens, whose signing key is in a JWKS file."""

    def __init__(self, path: Path, *, kid: str = "k1") -> None:
        self.path, self.kid = path, kid
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.publish()

    def publish(self) -> None:
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        self.path.write_text(json.dumps({"keys": [{**public, "kid": self.kid, "use": "sig"}]}))

    def token(self, *, algorithm: str = "RS256", key: Any = None, kid: str | None = None, **claims: Any) -> str:
        payload = {"sub": "alice", "exp": time.time() + 60, **claims}
        payload = {name: value for name, value in payload.items() if value is not None}
        return jwt.encode(payload, key or self.key, algorithm, headers={"kid": kid or self.kid})

    def options(self, **more: Any) -> OAuthCheckConfig:
        configs = {f"sasl.oauthbearer.{name.replace('_', '.')}": value for name, value in more.items()}
        return OAuthCheckConfig({"sasl.oauthbearer.jwks.endpoint.url": self.path.as_uri(), **configs})


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("keys") / "jwks.json")


def test_unsecured_token_authenticates_its_principal_claim() -> None:
    assert UnsecuredJwtValidator({}, lambda: NOW).check(unsigned(sub="alice", exp=1001)) == ("alice", 1001.0)
    named = UnsecuredJwtValidator({"unsecuredValidatorPrincipalClaimName": "user"}, lambda: NOW)
    assert named.check(unsigned(user="bob", sub="x", exp=1001)).user == "bob"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "a.b.c",
        "..",
        unsigned(sub="alice"),
        unsigned(sub="alice", exp=999),
        unsigned(sub="alice", exp="1001"),
        unsigned(sub="alice", exp=True),
        unsigned(sub="alice", exp=10**400),
        unsigned(exp=1001),
        unsigned(sub="", exp=1001),
        unsigned(sub=5, exp=1001),
        unsigned(sub="alice", exp=1001, iat=1000.5),
        unsigned({"alg": "RS256"}, sub="alice", exp=1001),
        unsigned(sub="alice", exp=1001) + "sig",
        f"{b64url_encode(b'[1]')}.{b64url_encode(b'{}')}.",
        f"{b64url_encode(b'[' * 100_000)}.{b64url_encode(b'{}')}.",
        unsigned(sub="alice", exp=float("inf")),
    ],
)
def test_malformed_or_expired_unsecured_token_is_rejected(token: str) -> None:
    with pytest.raises(InvalidTokenError):
        UnsecuredJwtValidator({}, lambda: NOW).check(token)


def test_allowable_clock_skew_is_applied_to_the_expiry() -> None:
    tokens = UnsecuredJwtValidator({"unsecuredValidatorAllowableClockSkewMs": "2000"}, lambda: NOW)
    assert tokens.check(unsigned(sub="alice", exp=999)).user == "alice"
    with pytest.raises(InvalidTokenError):
        tokens.check(unsigned(sub="alice", exp=998))
    for skew in ("-1", "²"):
        with pytest.raises(ConfigurationError, match="AllowableClockSkewMs"):
            UnsecuredJwtValidator({"unsecuredValidatorAllowableClockSkewMs": skew})


def test_token_without_the_required_scope_is_rejected() -> None:
    tokens = UnsecuredJwtValidator({"unsecuredValidatorRequiredScope": "read write"}, lambda: NOW)
    assert tokens.check(unsigned(sub="a", exp=1001, scope=["write", "read", "x"])).user == "a"
    assert tokens.check(unsigned(sub="a", exp=1001, scope="read write")).user == "a"
    with pytest.raises(InvalidTokenError) as error:
        tokens.check(unsigned(sub="a", exp=1001, scope="read"))
    assert (error.value.status, error.value.scope) == ("insufficient_scope", "read write")


def test_signed_token_of_the_expected_issuer_and_audience_is_accepted(issuer: Issuer) -> None:
    tokens = JwtValidator(issuer.options(expected_audience="kafka,other", expected_issuer="me"))
    authenticated = tokens.check(issuer.token(aud="kafka", iss="me", exp=time.time() + 60))
    assert authenticated.user == "alice"
    assert 50 < authenticated.expires - time.time() <= 60
    named = JwtValidator(issuer.options(sub_claim_name="client_id"))
    assert named.check(issuer.token(client_id="app")).user == "app"


def test_signed_token_with_wrong_claims_key_or_signature_is_rejected(issuer: Issuer) -> None:
    tokens = JwtValidator(issuer.options(expected_audience="kafka", expected_issuer="me"))
    good = {"aud": "kafka", "iss": "me"}
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = json.loads(issuer.path.read_text())["keys"][0]["n"]
    head, body, signature = issuer.token(**good).split(".")
    for token in (
        issuer.token(aud="other", iss="me"),
        issuer.token(iss="me"),
        issuer.token(aud="kafka", iss="you"),
        issuer.token(aud="kafka"),
        issuer.token(exp=None, **good),
        issuer.token(exp=time.time() - 31, **good),
        issuer.token(nbf=time.time() + 60, **good),
        issuer.token(sub=None, **good),
        issuer.token(sub="", **good),
        issuer.token(key=other, **good),
        issuer.token(kid="k2", **good),
        issuer.token(key=public, algorithm="HS256", **good),
        issuer.token(key=ec.generate_private_key(ec.SECP256R1()), algorithm="ES256", **good),
        f"{head}.{body}.",
        f"{head}.{body}.{signature[:-6]}AAAAAA",
        unsigned(sub="alice", exp=time.time() + 60, **good),
        "opaque",
        "",
    ):
        with pytest.raises(InvalidTokenError):
            tokens.check(token)


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
@pytest.mark.parametrize("named", [None, "PS512"])
def test_rsa_key_accepts_every_rsa_algorithm_unless_it_has_an_alg(
    algorithm: str, named: str | None, tmp_path: Path
) -> None:
    issuer = Issuer(tmp_path / "jwks.json")
    keys = json.loads(issuer.path.read_text())["keys"]
    issuer.path.write_text(json.dumps({"keys": [keys[0] if named is None else {**keys[0], "alg": named}, "odd"]}))
    tokens = JwtValidator(issuer.options())
    token = issuer.token(algorithm=algorithm)
    if named in (None, algorithm):
        assert tokens.check(token).user == "alice"
    else:
        with pytest.raises(InvalidTokenError):
            tokens.check(token)


def test_keys_are_loaded_over_tls_that_the_jaas_config_trusts(issuer: Issuer, tmp_path: Path) -> None:
    tls = certificates.localhost_server(tmp_path)
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=issuer.path.parent)
    ) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            url = f"https://localhost:{server.server_port}/{issuer.path.name}"
            config = BrokerConfig(
                {
                    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
                    "sasl.enabled.mechanisms": "OAUTHBEARER",
                    "sasl.oauthbearer.jwks.endpoint.url": url,
                    "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": (
                        f'{MODULE} ssl.truststore.type="PEM" ssl.truststore.location="{tmp_path / "ca.pem"}";'
                    ),
                }
            )
            oauth, jaas = config.oauth_of("SASL_PLAINTEXT"), config.jwks_endpoint_jaas("SASL_PLAINTEXT")
            assert JwtValidator(oauth, jaas_tls_context(jaas)).check(issuer.token()).user == "alice"
            with pytest.raises(StartupError, match="CERTIFICATE_VERIFY_FAILED"):
                JwtValidator(oauth)
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(("curve", "algorithm"), [(ec.SECP256R1(), "ES256"), (ec.SECP384R1(), "ES384")])
def test_ec_key_without_alg_accepts_only_the_algorithm_of_its_curve(
    curve: ec.EllipticCurve, algorithm: str, tmp_path: Path
) -> None:
    issuer, key = Issuer(tmp_path / "jwks.json"), ec.generate_private_key(curve)
    jwk = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    issuer.path.write_text(json.dumps({"keys": [{**jwk, "kid": "k1"}]}))
    tokens = JwtValidator(issuer.options())
    assert tokens.check(issuer.token(key=key, algorithm=algorithm)).user == "alice"
    with pytest.raises(InvalidTokenError):
        tokens.check(issuer.token(algorithm="RS256"))


def test_jwks_is_reloaded_for_a_token_with_an_unknown_key_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    issuer = Issuer(tmp_path / "jwks.json")
    tokens = JwtValidator(issuer.options())
    issuer.key, issuer.kid = rsa.generate_private_key(public_exponent=65537, key_size=2048), "k2"
    issuer.publish()
    with pytest.raises(InvalidTokenError):
        tokens.check(issuer.token())
    assert not tokens._reading, "the keys were read a moment ago"
    monkeypatch.setattr(jwt_validator, "UNKNOWN_KEY_PAUSE_SECONDS", -1.0)
    with pytest.raises(InvalidTokenError):
        tokens.check(issuer.token())
    assert tokens._reading is not None
    tokens._reading.join()
    assert tokens.check(issuer.token()).user == "alice"


def test_jwks_endpoint_that_does_not_answer_with_http_stops_the_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"\x15\x03\x03\0\2\2\x46")  # a TLS alert

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/keys"
        with pytest.raises(StartupError, match="no keys at"):
            JwtValidator(OAuthCheckConfig({"sasl.oauthbearer.jwks.endpoint.url": url}))
        thread.join()


def test_failed_jwks_refresh_keeps_the_previous_keys(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    issuer = Issuer(tmp_path / "jwks.json")
    tokens = JwtValidator(issuer.options(jwks_endpoint_refresh_ms=0))
    issuer.path.write_text("{")
    assert tokens.check(issuer.token()).user == "alice"
    assert tokens._reading is not None
    tokens._reading.join()
    assert "the previous keys stay in use" in caplog.text
    assert tokens.check(issuer.token()).user == "alice"


@pytest.mark.parametrize("content", [None, "", "{}", '{"keys":[]}', '{"keys":[{"kty":"oct","k":"eA"}]}'])
def test_jwks_without_keys_is_a_startup_error(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    if content is not None:
        path.write_text(content)
    options = OAuthCheckConfig({"sasl.oauthbearer.jwks.endpoint.url": path.as_uri()})
    with pytest.raises(StartupError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url: no keys"):
        JwtValidator(options)


def broker(data: Path, **more: Any) -> Broker:
    options = {
        **OPTIONS,
        "log.dirs": str(data),
        "listeners": "SASL_PLAINTEXT://localhost:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": f"{MODULE};",
        "connection.failed.authentication.delay.ms": "1",
        **more,
    }
    return Broker(options)


def client(node: Broker, **more: Any) -> dict[str, Any]:
    options = {"bootstrap_servers": node.bootstrap_servers, "security_protocol": "SASL_PLAINTEXT"}
    return {**options, "sasl_mechanism": "OAUTHBEARER", **more}


def test_clients_with_unsecured_tokens_produce_and_consume(tmp_path: Path) -> None:
    with broker(tmp_path) as node:
        options = client(node, sasl_jaas_config=f'{MODULE} unsecuredLoginStringClaim_sub="alice" extension_x="y";')
        with KafkaProducer(**options) as producer:
            producer.send("t", b"v").get(20)
        with KafkaConsumer("t", auto_offset_reset="earliest", **options) as consumer:
            assert next(consumer).value == b"v"


def test_client_with_an_expired_token_is_rejected_and_the_reason_is_logged(
    tmp_path: Path, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    keys = {"sasl.oauthbearer.jwks.endpoint.url": issuer.path.as_uri()}
    with broker(tmp_path, **keys) as node:
        expired = issuer.token(exp=time.time() - 100)
        with (
            KafkaProducer(**client(node, sasl_oauth_token_provider=lambda: expired)) as producer,
            pytest.raises(SaslAuthenticationFailedError, match="invalid_token"),
        ):
            producer.send("t", b"v").get(20)
        assert "Signature has expired" in caplog.text
        assert expired not in caplog.text
        with KafkaProducer(**client(node, sasl_oauth_token_provider=issuer.token)) as producer:
            producer.send("t", b"v").get(20)


def test_client_reauthenticates_with_a_new_token_before_the_old_one_expires(tmp_path: Path) -> None:
    requested_at: list[float] = []

    def provider() -> str:
        requested_at.append(time.time())
        return unsigned(sub="alice", exp=time.time() + 1.0)

    async def until_renewed(producer: KafkaProducer) -> None:
        while len(requested_at) < 4:
            await producer.send("t", b"v")

    with broker(tmp_path) as node, KafkaProducer(**client(node, sasl_oauth_token_provider=provider)) as producer:
        asyncio.run(asyncio.wait_for(until_renewed(producer), 20))
