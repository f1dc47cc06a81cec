"""Delegation tokens in the metadata store, as Kafka's DelegationTokenManagerZk keeps them: a znode per token.

The broker that receives a request writes the token and a change notification. All brokers then read the token. A broker
that may have missed notifications reads all tokens. Renewals and expirations are based on the current znode, not on
what this broker has read before. The znode does not contain the token's secret: each broker computes it from the master
key.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ottla.clock import SYSTEM_CLOCK, Clock
from ottla.cluster.image import store_reader
from ottla.cluster.store import token_znodes, znodes
from ottla.cluster.store.change_notifications import ChangeReader
from ottla.cluster.store.metadata_store import (
    MAX_NODE_BYTES,
    BadVersionError,
    Create,
    Delete,
    MetadataStore,
    MetadataStoreError,
    NoNodeError,
    Operation,
    Set,
    UnreadableNodeError,
    ZNode,
)
from ottla.errors import (
    DelegationTokenExpiredError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    InvalidRequestError,
)
from ottla.security.delegation_token import TokenInformation, token_hmac, token_password
from ottla.security.sasl.scram import HASHES, MIN_ITERATIONS, SALT_BYTES, Credential, TokenCredential, salted

log = logging.getLogger("ottla.cluster")

ATTEMPTS: Final = 10
"""Maximum number of attempts to change a token that other brokers change at the same time."""
Change = Callable[[TokenInformation], TokenInformation | None]
"""Returns the token to store, or None to remove it. Raises an error if the change is not allowed."""


class DelegationTokenStore:
    """The delegation tokens that this broker has read. Not thread-safe: event loop only."""

    def __init__(
        self,
        store: MetadataStore,
        master_key: bytes,
        *,
        max_lifetime_ms: int,
        renew_period_ms: int,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`renew_period_ms`: time until a token expires after it was created, or renewed without a period, at most
        until the end of its maximum lifetime.
        """
        self._store = store
        self._master_key = master_key
        self._max_lifetime_ms = max_lifetime_ms
        self._renew_period_ms = renew_period_ms
        self._clock = clock
        self._tokens: dict[str, TokenInformation] = {}
        self._ids_by_hmac: dict[bytes, str] = {}
        self._credentials: dict[tuple[str, str], Credential] = {}
        """SCRAM credentials by mechanism and token id.

        They are computed at the first use, because each takes some milliseconds.
        """
        self._changes = ChangeReader(
            "delegation tokens", store, [token_znodes.CHANGES], self._apply_notifications, clock.monotonic
        )

    async def start(self) -> None:
        """Create missing znodes, read all tokens, and apply changes from now on."""
        await store_reader.create_persistent_nodes(self._store, token_znodes.NODES)
        await self._changes.start()

    async def close(self) -> None:
        await self._changes.close()

    async def refresh(self) -> None:
        """Read recent changes by other brokers.

        If the store fails or does not respond in time, log a warning and keep the last known tokens.
        """
        await self._changes.refresh()

    def tokens(self) -> list[TokenInformation]:
        """Return all tokens, the oldest first."""
        return sorted(self._tokens.values(), key=lambda token: (token.issue_timestamp, token.token_id))

    def id_of(self, hmac: bytes) -> str:
        """Return the id of the token with this secret (HMAC); an empty string if this broker does not know it."""
        return self._ids_by_hmac.get(hmac, "")

    def hmac(self, token: TokenInformation) -> bytes:
        """Return the token's secret (HMAC), computed from the master key."""
        return token_hmac(self._master_key, token.token_id)

    def credential(self, mechanism: str, token_id: str) -> TokenCredential | None:
        """Return the SCRAM credential of a token, with the user that it authenticates.

        Return None if this broker does not know the token, or the token has expired.
        """
        token = self._tokens.get(token_id)
        if token is None or token.is_expired(self._clock.now_ms()):
            return None
        credential = self._credentials.get((mechanism, token_id))
        if credential is None:
            hash_name, salt = HASHES[mechanism], os.urandom(SALT_BYTES)
            key = salted(hash_name, token_password(self.hmac(token)), salt, MIN_ITERATIONS)
            credential = Credential.of_salted_password(hash_name, key, salt, MIN_ITERATIONS)
            self._credentials[mechanism, token_id] = credential
        return TokenCredential(credential, token.user, token.expiry_timestamp / 1000)

    # Changes by this broker

    async def create(
        self, owner: str, requester: str, renewers: Iterable[str], max_lifetime_ms: int
    ) -> TokenInformation:
        """Create a token. `max_lifetime_ms`: limited by the broker's config, which also applies if it is 0 or less."""
        now = self._clock.now_ms()
        lifetime_ms = self._max_lifetime_ms if max_lifetime_ms <= 0 else min(max_lifetime_ms, self._max_lifetime_ms)
        expiry = now + min(lifetime_ms, self._renew_period_ms)
        token_id = znodes.uuid_text(uuid.uuid4())
        token = TokenInformation(token_id, owner, requester, tuple(renewers), now, expiry, now + lifetime_ms)
        value = token_znodes.token_value(token)
        if len(value) > MAX_NODE_BYTES:
            raise InvalidRequestError(f"a delegation token with {len(token.renewers)} renewers cannot be stored")
        async with self._changes.lock:
            await self._write(Create(token_znodes.token_path(token_id), value), token_id)
            self._apply(token_id, token)
        return token

    async def renew(self, principal: str, hmac: bytes, period_ms: int) -> int:
        """Renew a token for `period_ms` from now, at most until the end of its maximum lifetime; negative: the default
        period. Return the new expiry time in ms since 1970.

        Raises DelegationTokenNotFoundError, DelegationTokenOwnerMismatchError if `principal` may not renew it,
        DelegationTokenExpiredError, or MetadataStoreError.
        """
        now = self._clock.now_ms()
        expiry = now + (self._renew_period_ms if period_ms < 0 else period_ms)
        return await self._change_expiry(principal, hmac, expiry, now)

    async def expire(self, principal: str, hmac: bytes, period_ms: int) -> int:
        """Let a token expire after `period_ms`, at the latest at the end of its maximum lifetime; negative: remove it
        now. Return the expiry time in ms since 1970.

        Raises the errors of `renew`; an expired token can be removed, though.
        """
        now = self._clock.now_ms()
        if period_ms >= 0:
            return await self._change_expiry(principal, hmac, now + period_ms, now)

        def remove(token: TokenInformation) -> None:
            _check_principal(token, principal)

        await self._change(await self._id_of(hmac), remove)
        return now

    async def remove_expired(self) -> None:
        """Remove the tokens that have expired, as far as this broker knows them."""
        now = self._clock.now_ms()

        def unless_renewed(token: TokenInformation) -> TokenInformation | None:
            return None if token.is_expired(now) else token

        for token in self.tokens():
            if token.is_expired(now):
                try:
                    if await self._change(token.token_id, unless_renewed) is None:
                        log.info("Removed the expired delegation token %s of %s", token.token_id, token.owner)
                except DelegationTokenNotFoundError:
                    pass  # another broker has removed it

    async def _change_expiry(self, principal: str, hmac: bytes, expiry: int, now: int) -> int:
        def change(token: TokenInformation) -> TokenInformation:
            _check_principal(token, principal)
            if token.is_expired(now):
                raise DelegationTokenExpiredError
            return token._replace(expiry_timestamp=min(token.max_timestamp, expiry))

        token = await self._change(await self._id_of(hmac), change)
        assert token is not None
        return token.expiry_timestamp

    async def _id_of(self, hmac: bytes) -> str:
        if hmac not in self._ids_by_hmac:
            await self.refresh()  # another broker may have just created the token
        token_id = self._ids_by_hmac.get(hmac)
        if token_id is None:
            raise DelegationTokenNotFoundError
        return token_id

    async def _change(self, token_id: str, change: Change) -> TokenInformation | None:
        """Replace a token with the one that `change` returns for the current one, or remove it for None.

        If other brokers change it meanwhile, make at most ATTEMPTS attempts.
        """
        path = token_znodes.token_path(token_id)
        async with self._changes.lock:
            for _ in range(ATTEMPTS):
                node = await self._store.get(path)
                if node is None:
                    self._apply(token_id, None)
                    raise DelegationTokenNotFoundError
                before = token_znodes.parse_token(token_id, node.value)
                after = change(before)
                if after != before:
                    value = None if after is None else token_znodes.token_value(after)
                    try:
                        await self._write(
                            Delete(path, node.version) if value is None else Set(path, value, node.version), token_id
                        )
                    except (BadVersionError, NoNodeError):
                        continue  # another broker was faster
                self._apply(token_id, after)
                return after
        raise MetadataStoreError(f"{path} was changed by other brokers {ATTEMPTS} times in a row; try again")

    async def _write(self, operation: Operation, token_id: str) -> None:
        notification = f"{token_znodes.CHANGES}/token_change_"
        await self._store.multi([operation, Create(notification, token_id.encode(), sequence=True)])

    def _apply(self, token_id: str, token: TokenInformation | None) -> None:
        hmac = token_hmac(self._master_key, token_id)
        if token is not None:
            self._tokens[token_id] = token
            self._ids_by_hmac[hmac] = token_id
            return
        self._tokens.pop(token_id, None)
        self._ids_by_hmac.pop(hmac, None)
        for mechanism in HASHES:
            self._credentials.pop((mechanism, token_id), None)

    # Changes by other brokers

    async def _apply_notifications(self, notifications: list[str]) -> None:
        token_ids = await self._changed_ids(notifications)
        nodes = await store_reader.get_all(self._store, list(map(token_znodes.token_path, token_ids)))
        for token_id, node in zip(token_ids, nodes, strict=True):
            self._apply(token_id, _token(token_id, node))

    async def _changed_ids(self, notifications: Sequence[str]) -> Sequence[str]:
        if self._changes.may_have_missed:
            stored = await self._store.children(token_znodes.TOKENS)
            return sorted(self._tokens.keys() | set(stored))
        nodes = await store_reader.get_all(self._store, notifications)
        names = {node.value.decode("utf-8", "replace") for node in nodes if node is not None}
        return sorted(filter(znodes.is_valid_name, names))


def _check_principal(token: TokenInformation, principal: str) -> None:
    if not token.belongs_to(principal):
        raise DelegationTokenOwnerMismatchError


def _token(token_id: str, node: ZNode | None) -> TokenInformation | None:
    """Return the token in a znode; None if there is none. If it cannot be parsed, log an error and return None."""
    try:
        return None if node is None else token_znodes.parse_token(token_id, node.value)
    except UnreadableNodeError as error:
        log.error("Cannot parse a delegation token: %s. Clients with this token are rejected.", error)
        return None
