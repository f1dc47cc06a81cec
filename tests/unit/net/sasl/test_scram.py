"""SCRAM by the examples of its RFCs, and against everything that is not quite it."""

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
    """As AlterUserScramCredentials has it kept."""
    name = MECHANISMS[mechanism]
    key = salted(name, password, SALT, iterations)
    stored = hashlib.new(name, hmac.digest(key, b"Client Key", name)).digest()
    return Credential(SALT, stored, hmac.digest(key, b"Server Key", name), iterations)


def talk(client: ScramClient, server: ScramServer) -> None:
    client.verify(server.step(client.final(server.step(client.first()))))


def test_the_example_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_both_sides_come_to_know_each_other(mechanism: str, user: str, password: str) -> None:
    server = ScramServer(mechanism, {user: credential(password, mechanism)}.get)
    assert server.user is None
    talk(ScramClient(mechanism, user, password), server)
    assert server.user == user


@pytest.mark.parametrize(("user", "password"), [("alice", "Secret"), ("bob", "secret"), ("alice", "")])
def test_who_does_not_know_the_password_is_refused(user: str, password: str) -> None:
    server = ScramServer("SCRAM-SHA-256", {"alice": credential("secret")}.get)
    with pytest.raises(SaslAuthenticationFailedError):
        talk(ScramClient("SCRAM-SHA-256", user, password), server)
    assert server.user is None


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    existing = credential("secret")._replace(server_key=bytes(32))
    with pytest.raises(SaslAuthenticationFailedError, match="the broker has not proved"):
        talk(ScramClient("SCRAM-SHA-256", "alice", "secret"), ScramServer("SCRAM-SHA-256", {"alice": existing}.get))


@pytest.mark.parametrize("iterations", [1, 4095, 1_000_001])
def test_a_client_hashes_neither_too_little_nor_for_ever(iterations: int) -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "secret")
    nonce = client.first().decode().partition("r=")[2]
    with pytest.raises(SaslAuthenticationFailedError, match=str(iterations)):
        client.final(f"r={nonce}x,s={b64encode(SALT).decode()},i={iterations}".encode())


@pytest.mark.parametrize("challenge", ["", "r=other,s=YQ==,i=4096", "r={nonce},s=YQ==,i=4096", "r={nonce}x,s=?,i=4096"])
def test_a_challenge_that_is_not_for_this_client_is_refused(challenge: str) -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "secret")
    nonce = client.first().decode().partition("r=")[2]
    with pytest.raises(SaslAuthenticationFailedError):
        client.final(challenge.format(nonce=nonce).encode())


def test_error_messages_of_brokers_are_shown() -> None:
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
def test_first_words_that_are_no_scram_are_refused(first: bytes) -> None:
    server = ScramServer("SCRAM-SHA-256", {"alice": credential("secret")}.get)
    with pytest.raises(SaslAuthenticationFailedError):
        server.step(first)


@pytest.mark.parametrize(
    "change",
    [
        (b"r=", b"r=x"),  # this one for its proof
        (b",p=", b"x,p="),
        (b"c=biws", b"c=eSws"),
        (b"c=biws", b"c=??"),
        (b",p=", b",p=AAAA"),
        (b",p=", b",q="),
        (b"p=", b"p=AA==,x="),
    ],
)
def test_a_proof_that_was_changed_is_refused(change: tuple[bytes, bytes]) -> None:
    server = ScramServer("SCRAM-SHA-256", {"alice": credential("secret")}.get)
    client = ScramClient("SCRAM-SHA-256", "alice", "secret")
    final = client.final(server.step(client.first()))
    with pytest.raises(SaslAuthenticationFailedError):
        server.step(final.replace(*change))
    assert server.user is None


def test_a_proof_is_good_once() -> None:
    users = {"alice": credential("secret")}
    server, client = ScramServer("SCRAM-SHA-256", users.get), ScramClient("SCRAM-SHA-256", "alice", "secret")
    final = client.final(server.step(client.first()))
    server.step(final)
    again = ScramServer("SCRAM-SHA-256", users.get)
    again.step(client.first())
    with pytest.raises(SaslAuthenticationFailedError):
        again.step(final)


def test_librdkafka_that_sends_its_nonce_twice_is_authenticated() -> None:
    server, client = ScramServer("SCRAM-SHA-256", {"alice": credential("secret")}.get), Own("alice", "secret")
    server.step(client.first())
    assert server.step(client.final(server._nonce, "abc" + server._nonce)).startswith(b"v=")
    assert server.user == "alice"


def test_a_proof_for_another_nonce_is_refused_although_the_password_is_right() -> None:
    server, client = ScramServer("SCRAM-SHA-256", {"alice": credential("secret")}.get), Own("alice", "secret")
    server.step(client.first())
    with pytest.raises(SaslAuthenticationFailedError):
        server.step(client.final(server._nonce, server._nonce + "x"))


class Own:
    """A client that knows the password, and says what it likes for a nonce."""

    def __init__(self, user: str, password: str) -> None:
        self.bare, self.password = f"n={user},r=abc", password

    def first(self) -> bytes:
        return f"n,,{self.bare}".encode()

    def final(self, nonce: str, said: str) -> bytes:
        key = salted("sha256", self.password, SALT, 4096)
        client_key = hmac.digest(key, b"Client Key", "sha256")
        without_proof = f"c=biws,r={said}"
        reported = f"{self.bare},r={nonce},s={b64encode(SALT).decode()},i=4096,{without_proof}".encode()
        signature = hmac.digest(hashlib.sha256(client_key).digest(), reported, "sha256")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without_proof},p={b64encode(proof).decode()}".encode()


def test_what_kafka_keeps_is_read() -> None:
    made = credential("secret")
    texts = (f"{n}={b64encode(getattr(made, n)).decode()}" for n in ("salt", "stored_key", "server_key"))
    assert Credential.parse(",".join([*texts, "iterations=4096"])) == made
    for damaged in ("", "salt=YQ==", "salt=?,stored_key=YQ==,server_key=YQ==,iterations=4096"):
        with pytest.raises(ValueError, match="."):
            Credential.parse(damaged)


def challenge(server: ScramServer, user: str) -> tuple[str, str]:
    """Return the salt and iterations that a server sends for this user name."""
    reported = server.step(ScramClient("SCRAM-SHA-256", user, "guess").first()).decode()
    salt, iterations = reported.split(",")[1:]
    return salt, iterations


def test_server_answers_for_unknown_user_as_for_a_known_one() -> None:
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
        talk(ScramClient("SCRAM-SHA-256", "unknown", "guess"), server)
    assert server.user is None


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_invented_credential_fits_its_hash_and_any_length_of_salt(mechanism: str) -> None:
    for like in (None, credential("x", mechanism)._replace(salt=bytes(60))):
        actual = invented(mechanism, "\udcff", b"secret", like)
        assert len(actual.salt) == (24 if like is None else 60)
        assert len(actual.stored_key) == len(credential("x", mechanism).stored_key)
        assert len(actual.server_key) == len(credential("x", mechanism).server_key)
