"""Delegation tokens: made, renewed, ended, told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.client.admin.driver import AdminCalls, check
from ottla.protocol.messages import create_delegation_token as create_token
from ottla.protocol.messages import describe_delegation_token as tokens
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest


class DelegationToken(NamedTuple):
    """A token that stands in for its owner. Times in milliseconds."""

    token_id: str
    hmac: bytes
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int


class TokensAdmin(AdminCalls):
    """Calls about tokens that stand in for users."""

    async def create_delegation_token(
        self,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int = -1,
        owner: str | None = None,
        timeout_ms: float | None = None,
    ) -> DelegationToken:
        """A token for this client's user, or for `owner`. Principals are written `User:name`."""
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

        async def attempt() -> DelegationToken:
            t = await self.ask_controller(request)
            check(t.error_code, "delegation token")
            return DelegationToken(
                t.token_id,
                bytes(t.hmac),
                f"{t.principal_type}:{t.principal_name}",
                f"{t.token_requester_principal_type}:{t.token_requester_principal_name}",
                tuple(allowed),
                t.issue_timestamp_ms,
                t.expiry_timestamp_ms,
                t.max_timestamp_ms,
            )

        return await self.retried(attempt, timeout_ms)

    async def renew_delegation_token(
        self, hmac: bytes, renew_period_ms: int = -1, timeout_ms: float | None = None
    ) -> int:
        """Let a token live longer; when it expires now, in milliseconds."""

        async def attempt() -> int:
            request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=renew_period_ms)
            response = await self.ask_controller(request)
            check(response.error_code, "delegation token")
            return int(response.expiry_timestamp_ms)

        return await self.retried(attempt, timeout_ms)

    async def expire_delegation_token(
        self, hmac: bytes, expiry_time_period_ms: int = -1, timeout_ms: float | None = None
    ) -> int:
        """End a token, at once (-1) or after a time; when it expires, in milliseconds."""

        async def attempt() -> int:
            request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=expiry_time_period_ms)
            response = await self.ask_controller(request)
            check(response.error_code, "delegation token")
            return int(response.expiry_timestamp_ms)

        return await self.retried(attempt, timeout_ms)

    async def describe_delegation_token(
        self, owners: Iterable[str] | None = None, timeout_ms: float | None = None
    ) -> list[DelegationToken]:
        """The tokens of owners (`User:name`; None: of all) that this client may see."""
        wanted = None
        if owners is not None:
            wanted = [
                tokens.DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                for kind, name in map(_principal, owners)
            ]

        async def attempt() -> list[DelegationToken]:
            response = await self.connections.ask_any(tokens.DescribeDelegationTokenRequest(owners=wanted))
            check(response.error_code, "delegation tokens")
            return [
                DelegationToken(
                    t.token_id,
                    bytes(t.hmac),
                    f"{t.principal_type}:{t.principal_name}",
                    f"{t.token_requester_principal_type}:{t.token_requester_principal_name}",
                    tuple(f"{r.principal_type}:{r.principal_name}" for r in t.renewers),
                    t.issue_timestamp,
                    t.expiry_timestamp,
                    t.max_timestamp,
                )
                for t in response.tokens
            ]

        return await self.retried(attempt, timeout_ms)


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"{text!r}: a principal is written User:name")
    return kind, name
