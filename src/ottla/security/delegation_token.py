"""Delegation tokens (KIP-48): their data as immutable values, and their secrets, which are derived from the master key.

Like Kafka's `TokenInformation` and parts of `DelegationTokenManager`.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from typing import Final, NamedTuple

USER_PREFIX: Final = "User:"
HASH: Final = "sha512"


class TokenInformation(NamedTuple):
    """A token without its secret. Principals have the format `User:name`. Times are in milliseconds since 1970."""

    token_id: str
    owner: str
    """The principal that a client with the token acts as."""
    requester: str
    """The principal that has created the token.

    To create it for another owner, the principal needs CREATE_TOKENS (KIP-373).
    """
    renewers: tuple[str, ...]
    """The principals that may renew and expire the token, in addition to its owner."""
    issue_timestamp: int
    expiry_timestamp: int
    """The time at which the token expires, unless it is renewed before."""
    max_timestamp: int
    """The time at which the token expires even if it is renewed."""

    @property
    def user(self) -> str:
        """The owner's name without the prefix `User:`."""
        return self.owner.removeprefix(USER_PREFIX)

    def is_expired(self, now_ms: int) -> bool:
        return min(self.expiry_timestamp, self.max_timestamp) < now_ms

    def belongs_to(self, principal: str) -> bool:
        """Return whether the principal is the owner or a renewer."""
        return principal == self.owner or principal in self.renewers


def token_hmac(master_key: bytes, token_id: str) -> bytes:
    """Return the token's secret (HMAC). Every broker with the master key can compute it."""
    return hmac.digest(master_key, token_id.encode(), HASH)


def token_password(secret: bytes) -> str:
    """Return the SCRAM password of a client that authenticates with the token's secret."""
    return b64encode(secret).decode()
