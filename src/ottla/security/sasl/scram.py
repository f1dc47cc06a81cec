"""SCRAM (RFC 5802, RFC 7677) without I/O: both sides take and return messages.

The password is never sent. The client proves that it has a key that is derived from the password by many hash
iterations, and the server proves that it has the stored credential. Passwords are UTF-8 without SASLprep, as in Kafka.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from ottla.errors import SaslAuthenticationFailedError

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MIN_ITERATIONS: Final = 4096
SALT_BYTES: Final = 24
"""The size in bytes of the salts of delegation tokens' credentials and, by default, of fake credentials."""
MAX_ITERATIONS: Final = 1_000_000
"""Maximum number of iterations that a client accepts, so that a server cannot keep it busy."""
TOKEN_EXTENSION: Final = "tokenauth=true"
"""The extension of a client that authenticates with a delegation token (KIP-48).

In that case, the user name is the id of the token.
"""
OWN_SECRET: Final = secrets.token_bytes(32)
_FIRST: Final = re.compile(r"n,(?:a=([^,]*))?,(n=([^,]+),r=([!-+\--~]+)((?:,.*)?))")
_CHALLENGE: Final = re.compile(r"r=([!-+\--~]+),s=([A-Za-z0-9+/=]+),i=(\d{1,9})(?:,.*)?")
_FINAL: Final = re.compile(r"(c=([A-Za-z0-9+/=]+),r=([!-+\--~]+)(?:,[^p].*)?),p=([A-Za-z0-9+/=]+)")


class Credential(NamedTuple):
    """A stored credential. It can verify a password, but it cannot be used to log in."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def of_salted_password(cls, hash_name: str, salted_password: bytes, salt: bytes, iterations: int) -> Credential:
        client_key = hmac.digest(salted_password, b"Client Key", hash_name)
        stored_key = hashlib.new(hash_name, client_key).digest()
        return cls(salt, stored_key, hmac.digest(salted_password, b"Server Key", hash_name), iterations)

    @classmethod
    def parse(cls, text: str) -> Credential:
        """Parse a credential in Kafka's text format: `salt=…,stored_key=…,server_key=…,iterations=…`.

        Raises ValueError if it is malformed.
        """
        parts = dict(part.split("=", 1) for part in text.split(","))
        try:
            salt, stored, server = (b64decode(parts[n], validate=True) for n in ("salt", "stored_key", "server_key"))
            return cls(salt, stored, server, int(parts["iterations"]))
        except KeyError as error:
            raise ValueError(f"the SCRAM credential lacks {error}") from None


class TokenCredential(NamedTuple):
    """The credential of a delegation token, the user name of its owner, and its expiry time in seconds since 1970."""

    credential: Credential
    user: str
    expires: float


def salted(hash_name: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password: PBKDF2 of the password (RFC 5802)."""
    return hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)


def invented(mechanism: str, user: str, secret: bytes, like: Credential | None = None) -> Credential:
    """Return a fake credential, which no password matches, for an unknown user, so that answers do not reveal which
    users exist.

    For one user and mechanism, it is the same on every broker with the same `secret` and `like`. `like`: a real user's
    credential, from which the fake one gets its number of iterations and salt size.
    """

    def derived(what: bytes) -> bytes:
        return hmac.digest(secret, b"ottla scram " + what + b"\0" + user.encode("utf-8", "replace"), HASHES[mechanism])

    salt_bytes, iterations = (SALT_BYTES, MIN_ITERATIONS) if like is None else (len(like.salt), like.iterations)
    salt = derived(b"salt")
    while len(salt) < salt_bytes:
        salt += derived(b"more salt" + salt[hashlib.new(HASHES[mechanism]).digest_size :])
    return Credential(salt[:salt_bytes], derived(b"stored key"), derived(b"server key"), iterations)


class ScramClient:
    """The client's side of one exchange. Call `first`, `final` and `verify` in this order."""

    def __init__(self, mechanism: str, user: str, password: str, *, by_token: bool = False) -> None:
        """`by_token`: whether user and password are the id and the secret of a delegation token."""
        self._hash = HASHES[mechanism]
        self._password = password
        self._nonce = secrets.token_urlsafe(24)
        extension = f",{TOKEN_EXTENSION}" if by_token else ""
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}{extension}"
        self._proves = b""

    def first(self) -> bytes:
        """Return the first message, which names the user."""
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """Return the final message, which has the proof.

        Raises SaslAuthenticationFailedError if the challenge is malformed, or its number of iterations is not allowed.
        """
        text = challenge.decode("utf-8", "replace")
        match = _CHALLENGE.fullmatch(text)
        if match is None or not match[1].startswith(self._nonce) or match[1] == self._nonce:
            raise SaslAuthenticationFailedError("the broker's SCRAM challenge is malformed")
        iterations = int(match[3])
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise SaslAuthenticationFailedError(
                f"the broker requests {iterations} SCRAM iterations; {MIN_ITERATIONS} to {MAX_ITERATIONS} are allowed"
            )
        key = salted(self._hash, self._password, _unbased(match[2]), iterations)
        client_key = hmac.digest(key, b"Client Key", self._hash)
        without_proof = f"c=biws,r={match[1]}"
        auth_message = f"{self._bare},{text},{without_proof}".encode()
        self._proves = hmac.digest(hmac.digest(key, b"Server Key", self._hash), auth_message, self._hash)
        signature = hmac.digest(hashlib.new(self._hash, client_key).digest(), auth_message, self._hash)
        return f"{without_proof},p={b64encode(_xor(client_key, signature)).decode()}".encode()

    def verify(self, last: bytes) -> None:
        """Verify the server's last message.

        Raises SaslAuthenticationFailedError unless it proves that the server has the credential.
        """
        text = last.decode("utf-8", "replace")
        if text.startswith("e="):
            raise SaslAuthenticationFailedError(f"the broker rejects the login: {text[2:]}")
        proof = text[2:].partition(",")[0]
        if not text.startswith("v=") or not hmac.compare_digest(_unbased(proof), self._proves):
            raise SaslAuthenticationFailedError("the broker has not proved that it knows this user's password")


class ScramServer:
    """The server's side of one exchange. Call `step` with each message of the client. `user` is set after success."""

    def __init__(
        self,
        mechanism: str,
        credential_of: Callable[[str], Credential | None],
        invent: Callable[[str], Credential] | None = None,
        token_of: Callable[[str], TokenCredential | None] = lambda _: None,
    ) -> None:
        """`credential_of`: returns the credential of a user.

        `invent`: returns the fake credential of an unknown user (see `invented`); by default it uses a random secret.
        `token_of`: returns the credential of a delegation token by its id.
        """
        self.user: str | None = None
        self.expires: float | None = None
        self.by_token = False
        self._token_of = token_of
        self._invent = invent or partial(invented, mechanism, secret=OWN_SECRET)
        self._is_known = False
        self._hash = HASHES[mechanism]
        self._credential_of = credential_of
        self._credential: Credential | None = None
        self.claimed = ""
        """The user that the client claims to be, or the id of its token."""
        self._token_user = ""
        self._nonce = ""
        self._first_messages = ""

    def step(self, message: bytes) -> bytes:
        """Return the answer to a message.

        Raises SaslAuthenticationFailedError if the message is malformed, the authorization id differs from the user, or
        the proof is wrong. The text of the error must not be sent to the client.
        """
        text = message.decode("utf-8", "replace")
        return self._challenge(text) if self._credential is None else self._check(text, self._credential)

    def _challenge(self, text: str) -> bytes:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise SaslAuthenticationFailedError("a SCRAM message is malformed")
        user = match[3].replace("=2C", ",").replace("=3D", "=")
        if match[1] not in (None, "", match[3]):
            raise SaslAuthenticationFailedError("the authorization id differs from the user's name")
        self.by_token = TOKEN_EXTENSION in match[5].split(",")
        credential = self._token_credential(user) if self.by_token else self._credential_of(user)
        self._is_known = credential is not None
        if credential is None:
            credential = self._invent(user)
        self._credential, self.claimed = credential, user
        self._nonce = match[4] + secrets.token_urlsafe(24)
        challenge = f"r={self._nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        self._first_messages = f"{match[2]},{challenge}"
        return challenge.encode()

    def _token_credential(self, token_id: str) -> Credential | None:
        token = self._token_of(token_id)
        if token is None:
            return None
        self._token_user, self.expires = token.user, token.expires
        return token.credential

    def _check(self, text: str, credential: Credential) -> bytes:
        match = _FINAL.fullmatch(text)
        # librdkafka before 2.6.1 prepends its own nonce; Kafka only compares the end, too
        if match is None or not match[3].endswith(self._nonce) or not _unbased(match[2]).startswith(b"n,"):
            raise SaslAuthenticationFailedError("a SCRAM message is malformed")
        auth_message = f"{self._first_messages},{match[1]}".encode()
        signature = hmac.digest(credential.stored_key, auth_message, self._hash)
        proof = _unbased(match[4])
        stored = hashlib.new(self._hash, _xor(proof, signature)).digest()
        if len(proof) != len(signature) or not hmac.compare_digest(stored, credential.stored_key) or not self._is_known:
            raise SaslAuthenticationFailedError(self._why_rejected())
        self.user = self._token_user if self.by_token else self.claimed
        return f"v={b64encode(hmac.digest(credential.server_key, auth_message, self._hash)).decode()}".encode()

    def _why_rejected(self) -> str:
        if self._is_known:
            return "the password is wrong"
        return "the delegation token is unknown or has expired" if self.by_token else "the user is unknown"


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=False))


def _unbased(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise SaslAuthenticationFailedError("a SCRAM message is malformed") from None
