"""Delegation tokens (KIP-48): what brokers know of them. Immutable values, and the secrets derived from the master key.

Kafka's `TokenInformation` and `DelegationTokenManager`.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from typing import Final, NamedTuple

USER_PREFIX: Final = "User:"
HASH: Final = "sha512"


class TokenInformation(NamedTuple):
    """A token without its secret. Principals have the form `User:name`, times are in milliseconds since 1970."""

    token_id: str
    owner: str
    """The principal that a client with the token acts as."""
    requester: str
    """The principal that has created the token; another one than the owner needs CREATE_TOKENS for it (KIP-373)."""
    renewers: tuple[str, ...]
    """Principals that may renew and expire the token, besides its owner."""
    issue_timestamp: int
    expiry_timestamp: int
    """The time from which the token is not accepted, unless it is renewed before."""
    max_timestamp: int
    """The time up to which the token can be renewed."""

    @property
    def user(self) -> str:
        """The owner's name as a user."""
        return self.owner.removeprefix(USER_PREFIX)

    def is_expired(self, now_ms: int) -> bool:
        return min(self.expiry_timestamp, self.max_timestamp) < now_ms

    def belongs_to(self, principal: str) -> bool:
        """Return whether the principal is the owner or a renewer."""
        return principal == self.owner or principal in self.renewers


def token_hmac(master_key: bytes, token_id: str) -> bytes:
    """Return the token's secret, which every broker with the master key can compute."""
    return hmac.digest(master_key, token_id.encode(), HASH)


def token_password(secret: bytes) -> str:
    """Return the password with which a client that has the token's secret authenticates by SCRAM."""
    return b64encode(secret).decode()
