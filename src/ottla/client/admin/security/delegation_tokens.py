"""Delegation tokens: creation, renewal, expiry, description."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ottla.client.admin.driver import AdminDriver, to_controller
from ottla.protocol.messages import create_delegation_token as create_token
from ottla.protocol.messages import describe_delegation_token as tokens
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest


class DelegationToken(NamedTuple):
    """A delegation token. Times in milliseconds since 1970."""

    token_id: str
    hmac: bytes
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int


class TokensAdmin(AdminDriver):
    """Admin calls for delegation tokens."""

    async def create_delegation_token(
        self,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int = -1,
        owner: str | None = None,
        timeout_ms: float | None = None,
    ) -> DelegationToken:
        """Create a token for this client's user, or for the principal `owner`. Principals have the form `User:name`.

        `max_lifetime_ms`: -1 for the broker's maximum.
        """
        allowed = list(renewers)
        owner_type, owner_name = _principal(owner) if owner is not None else (None, None)
        request = create_token.CreateDelegationTokenRequest(
            owner_principal_type=owner_type,
            owner_principal_name=owner_name,
            renewers=[
                create_token.CreatableRenewers(principal_type=kind, principal_name=name)
                for kind, name in map(_principal, allowed)
            ],
            max_lifetime_ms=max_lifetime_ms,
        )
        return await self.call(
            request,
            lambda t: _token(t, allowed, t.issue_timestamp_ms, t.expiry_timestamp_ms, t.max_timestamp_ms),
            timeout_ms,
            "delegation token",
            to_controller,
        )

    async def renew_delegation_token(
        self, hmac: bytes, renew_period_ms: int = -1, timeout_ms: float | None = None
    ) -> int:
        """Renew a token, and return its new expiry time in milliseconds since 1970. `renew_period_ms`: -1 for the
        broker's default.
        """
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=renew_period_ms)
        return await self.call(request, _expiry, timeout_ms, "delegation token", to_controller)

    async def expire_delegation_token(
        self, hmac: bytes, expiry_time_period_ms: int = -1, timeout_ms: float | None = None
    ) -> int:
        """Let a token expire after a period in milliseconds (-1: now), and return the expiry time in milliseconds since
        1970.
        """
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=expiry_time_period_ms)
        return await self.call(request, _expiry, timeout_ms, "delegation token", to_controller)

    async def describe_delegation_token(
        self, owners: Iterable[str] | None = None, timeout_ms: float | None = None
    ) -> list[DelegationToken]:
        """Return the tokens of `owners` (`User:name`; None: all) that this client is authorized to describe."""
        principals = None
        if owners is not None:
            principals = [
                tokens.DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                for kind, name in map(_principal, owners)
            ]

        def parse(response: tokens.DescribeDelegationTokenResponse) -> list[DelegationToken]:
            return [
                _token(
                    t,
                    [f"{r.principal_type}:{r.principal_name}" for r in t.renewers],
                    t.issue_timestamp,
                    t.expiry_timestamp,
                    t.max_timestamp,
                )
                for t in response.tokens
            ]

        request = tokens.DescribeDelegationTokenRequest(owners=principals)
        return await self.call(request, parse, timeout_ms, "delegation tokens")


def _token(t: Any, renewers: Iterable[str], issued: int, expires: int, max_timestamp: int) -> DelegationToken:
    return DelegationToken(
        t.token_id,
        bytes(t.hmac),
        f"{t.principal_type}:{t.principal_name}",
        f"{t.token_requester_principal_type}:{t.token_requester_principal_name}",
        tuple(renewers),
        issued,
        expires,
        max_timestamp,
    )


def _expiry(response: Any) -> int:
    return int(response.expiry_timestamp_ms)


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"{text!r}: expected a principal in the form User:name")
    return kind, name
