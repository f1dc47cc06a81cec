"""SCRAM: the example of RFC 7677, authentication of both sides, and malformed messages."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64encode

import pytest

from ottla.errors import SaslAuthenticationFailedError
from ottla.security.sasl.scram import Credential, ScramClient, ScramServer, invented, salted

MECHANISMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
SALT = b"0123456789abcdef"


def credential(password: str, mechanism: str = "SCRAM-SHA-256", iterations: int = 4096) -> Credential:
    """Return a credential as AlterUserScramCredentials stores it."""
    name = MECHANISMS[mechanism]
    key = salted(name, password, SALT, iterations)
    stored = hashlib.new(name, hmac.digest(key, b"Client Key", name)).digest()
    return Credential(SALT, stored, hmac.digest(key, b"Server Key", name), iterations)


def authenticate(client: ScramClient, server: ScramServer) -> None:
    client.verify(server.step(client.final(server.step(client.first()))))


def test_scram_sha_256_example_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    nonces = iter(["rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"])
    monkeypatch.setattr(secrets, "token_urlsafe", lambda _: next(nonces))
    client = ScramClient("SCRAM-SHA-256", "user", "pencil")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = client.final(challenge)
    proof = b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert final == b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=" + proof
    client.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", "secret"), ("a=b,c", "p,=ä"), ("=2C=3D", "x")])
def test_client_and_server_authenticate_each_other(mechanism: str, user: str, password: str) -> None:
    server = ScramServer(mechanism, {user: credential(password, mechanism)}.get)
    assert server.user is None
    authenticate(ScramClient(mechanism, user, password), server)
    assert server.user == user


@pytest.mark.parametrize(("user", "password"), [("alice", "Secret"), ("bob", "secret"), ("alice", "")])
def test_client_with_wrong_credentials_is_rejected(user: str, password: str) -> None:
    server = ScramServer("SCRAM-SHA-256", {"alice": credential("secret")}.get)
    with pytest.raises(SaslAuthenticationFailedError):
        authenticate(ScramClient("SCRAM-SHA-256", user, password), server)
    assert server.user is None


def test_server_with_wrong_server_key_is_rejected() -> None:
    wrong_credential = credential("secret")._replace(server_key=bytes(32))
    with pytest.raises(SaslAuthenticationFailedError, match="the broker has not proved"):
        authenticate(
            ScramClient("SCRAM-SHA-256", "alice", "secret"),
            ScramServer("SCRAM-SHA-256", {"alice": wrong_credential}.get),
        )


@pytest.mark.parametrize("iterations", [1, 4095, 1_000_001])
def test_client_rejects_iterations_out_of_range(iterations: int) -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "secret")
    nonce = client.first().decode().partition("r=")[2]
    with pytest.raises(SaslAuthenticationFailedError, match=str(iterations)):
        client.final(f"r={nonce}x,s={b64encode(SALT).decode()},i={iterations}".encode())


@pytest.mark.parametrize("challenge", ["", "r=other,s=YQ==,i=4096", "r={nonce},s=YQ==,i=4096", "r={nonce}x,s=?,i=4096"])
def test_client_rejects_malformed_or_foreign_challenge(challenge: str) -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "secret")
    nonce = client.first().decode().partition("r=")[2]
    with pytest.raises(SaslAuthenticationFailedError):
        client.final(challenge.format(nonce=nonce).encode())


def test_error_of_the_broker_is_reported() -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "secret")
    with pytest.raises(SaslAuthenticationFailedError, match="unknown-user"):
        client.verify(b"e=unknown-user")


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,n=alice",
        b"n,,r=abc,n=alice",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,a=bob,n=alice,r=abc",
        b"\xff\xfe",
        b"\0alice\0secret",
    ],
)
def test_server_rejects_malformed_first_message(first: bytes) -> None:
    server = ScramServer("SCRAM-SHA-256", {"alice": credential("secret")}.get)
    with pytest.raises(SaslAuthenticationFailedError):
        server.step(first)


@pytest.mark.parametrize(
    "change",
    [
        (b"r=", b"r=x"),  # rejected for its proof
        (b",p=", b"x,p="),
        (b"c=biws", b"c=eSws"),
        (b"c=biws", b"c=??"),
        (b",p=", b",p=AAAA"),
        (b",p=", b",q="),
        (b"p=", b"p=AA==,x="),
    ],
)
def test_server_rejects_modified_final_message(change: tuple[bytes, bytes]) -> None:
    server = ScramServer("SCRAM-SHA-256", {"alice": credential("secret")}.get)
    client = ScramClient("SCRAM-SHA-256", "alice", "secret")
    final = client.final(server.step(client.first()))
    with pytest.raises(SaslAuthenticationFailedError):
        server.step(final.replace(*change))
    assert server.user is None


def test_proof_cannot_be_replayed() -> None:
    users = {"alice": credential("secret")}
    server, client = ScramServer("SCRAM-SHA-256", users.get), ScramClient("SCRAM-SHA-256", "alice", "secret")
    final = client.final(server.step(client.first()))
    server.step(final)
    again = ScramServer("SCRAM-SHA-256", users.get)
    again.step(client.first())
    with pytest.raises(SaslAuthenticationFailedError):
        again.step(final)


def test_librdkafka_with_the_doubled_nonce_is_authenticated() -> None:
    server, client = (
        ScramServer("SCRAM-SHA-256", {"alice": credential("secret")}.get),
        AnyNonceClient("alice", "secret"),
    )
    server.step(client.first())
    assert server.step(client.final(server._nonce, "abc" + server._nonce)).startswith(b"v=")
    assert server.user == "alice"


def test_proof_for_another_nonce_is_rejected_despite_correct_password() -> None:
    server, client = (
        ScramServer("SCRAM-SHA-256", {"alice": credential("secret")}.get),
        AnyNonceClient("alice", "secret"),
    )
    server.step(client.first())
    with pytest.raises(SaslAuthenticationFailedError):
        server.step(client.final(server._nonce, server._nonce + "x"))


class AnyNonceClient:
    """A client with the correct password that sends any nonce."""

    def __init__(self, user: str, password: str) -> None:
        self.bare, self.password = f"n={user},r=abc", password

    def first(self) -> bytes:
        return f"n,,{self.bare}".encode()

    def final(self, nonce: str, sent_nonce: str) -> bytes:
        key = salted("sha256", self.password, SALT, 4096)
        client_key = hmac.digest(key, b"Client Key", "sha256")
        without_proof = f"c=biws,r={sent_nonce}"
        message = f"{self.bare},r={nonce},s={b64encode(SALT).decode()},i=4096,{without_proof}".encode()
        signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without_proof},p={b64encode(proof).decode()}".encode()


def test_credential_in_kafkas_format_is_parsed() -> None:
    stored_credential = credential("secret")
    texts = (f"{n}={b64encode(getattr(stored_credential, n)).decode()}" for n in ("salt", "stored_key", "server_key"))
    assert Credential.parse(",".join([*texts, "iterations=4096"])) == stored_credential
    for damaged in ("", "salt=YQ==", "salt=?,stored_key=YQ==,server_key=YQ==,iterations=4096"):
        with pytest.raises(ValueError, match="."):
            Credential.parse(damaged)


def challenge(server: ScramServer, user: str) -> tuple[str, str]:
    """Return the salt and iterations that a server sends for this user name."""
    message = server.step(ScramClient("SCRAM-SHA-256", user, "guess").first()).decode()
    salt, iterations = message.split(",")[1:]
    return salt, iterations


def test_challenge_for_unknown_user_resembles_that_of_a_known_one() -> None:
    real = credential("secret")._replace(salt=bytes(26), iterations=8192)
    users = {"alice": real}

    def started(secret: bytes = b"of the cluster") -> ScramServer:
        return ScramServer(
            "SCRAM-SHA-256", users.get, lambda user: invented("SCRAM-SHA-256", user, secret, users["alice"])
        )

    salt, iterations = challenge(started(), "unknown")
    assert (salt, iterations) == challenge(started(), "unknown")  # after a restart and on other brokers, too
    assert len(salt) == len(challenge(started(), "alice")[0])
    assert iterations == challenge(started(), "alice")[1]
    assert salt != challenge(started(), "another")[0]
    assert salt != challenge(started(b"of another"), "unknown")[0]
    server = started()
    with pytest.raises(SaslAuthenticationFailedError, match="unknown"):
        authenticate(ScramClient("SCRAM-SHA-256", "unknown", "guess"), server)
    assert server.user is None


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_invented_credential_fits_its_hash_and_any_length_of_salt(mechanism: str) -> None:
    for size in (None, 60, 300):
        like = None if size is None else credential("x", mechanism)._replace(salt=bytes(size))
        actual = invented(mechanism, "\udcff", b"secret", like)
        assert len(actual.salt) == (size or 24)
        blocks = [actual.salt[at : at + 32] for at in range(0, len(actual.salt), 32)]
        assert len(set(blocks)) == len(blocks)
        assert len(actual.stored_key) == len(credential("x", mechanism).stored_key)
        assert len(actual.server_key) == len(credential("x", mechanism).server_key)
