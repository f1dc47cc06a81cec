"""Delegation tokens of several brokers over one tree, as Kafka writes and reads them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.unit.cluster.shared_tree import SharedTree

from ottla.clock import ManualClock
from ottla.cluster.broker import delegation_token_store
from ottla.cluster.broker.delegation_token_store import DelegationTokenStore
from ottla.cluster.store import change_notifications, token_znodes
from ottla.cluster.store.metadata_store import Create, Delete, MetadataStore
from ottla.errors import (
    DelegationTokenExpiredError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    InvalidRequestError,
    KafkaError,
)
from ottla.security.delegation_token import TokenInformation, token_password
from ottla.security.sasl.scram import HASHES, ScramClient, ScramServer

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"
KEY = b"master key"
FROM_KAFKA = (
    b'{"tokenRequester":"User%3Abob","owner":"User%3ACN%3Dalice%2CO%3Dx","maxTimestamp":1700604800000,'
    b'"expiryTimestamp":1700086400000,"renewers":["User%3Acarol%2Adave"],"issueTimestamp":1700000000000,'
    b'"tokenId":"0Vw3FlTUTrSpUIJrA4AzxA","version":3}'
)
"""A token's value as Kafka 3.9 writes it."""


class Brokers:
    """Token stores over one tree, with one clock."""

    def __init__(self) -> None:
        self.tree, self.clock = SharedTree(), ManualClock()
        self.store: MetadataStore = self.tree.session()

    async def start(self, key: bytes = KEY) -> DelegationTokenStore:
        broker = DelegationTokenStore(
            self.tree.session(), key, max_lifetime_ms=7 * DAY_MS, renew_period_ms=DAY_MS, clock=self.clock
        )
        await broker.start()
        return broker


def run(test: Callable[[Brokers], Coroutine[Any, Any, None]]) -> None:
    async def with_tree() -> None:
        await asyncio.wait_for(test(Brokers()), 20)

    asyncio.run(with_tree())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


def test_token_created_by_a_broker_is_available_on_the_others() -> None:
    async def test(brokers: Brokers) -> None:
        one, other = await brokers.start(), await brokers.start()
        now = brokers.clock.now_ms()
        token = await one.create(ALICE, BOB, [CAROL], -1)
        assert token[1:] == (ALICE, BOB, (CAROL,), now, now + DAY_MS, now + 7 * DAY_MS)
        await until(lambda: other.tokens() == [token])
        assert other.hmac(token) == one.hmac(token)
        assert len(one.hmac(token)) == 64
        late = await brokers.start()
        assert late.tokens() == [token]
        assert (await brokers.start(b"another key")).hmac(token) != one.hmac(token)

    run(test)


@pytest.mark.parametrize(
    ("requested", "lifetime", "expiry"),
    [
        (0, 7 * DAY_MS, DAY_MS),
        (HOUR_MS, HOUR_MS, HOUR_MS),
        (2 * DAY_MS, 2 * DAY_MS, DAY_MS),
        (2**62, 7 * DAY_MS, DAY_MS),
    ],
)
def test_lifetime_of_a_token_is_limited(requested: int, lifetime: int, expiry: int) -> None:
    async def test(brokers: Brokers) -> None:
        broker, now = await brokers.start(), brokers.clock.now_ms()
        token = await broker.create(ALICE, ALICE, [], requested)
        assert (token.max_timestamp - now, token.expiry_timestamp - now) == (lifetime, expiry)

    run(test)


def test_owner_and_renewers_renew_a_token_up_to_its_maximum_lifetime() -> None:
    async def test(brokers: Brokers) -> None:
        one, other = await brokers.start(), await brokers.start()
        token = await one.create(ALICE, ALICE, [BOB], 2 * DAY_MS)
        hmac = one.hmac(token)
        brokers.clock.advance(HOUR_MS)
        now = brokers.clock.now_ms()
        assert await other.renew(ALICE, hmac, -1) == now + DAY_MS
        assert await one.renew(BOB, hmac, 5) == now + 5
        assert await other.renew(BOB, hmac, 7 * DAY_MS) == token.max_timestamp
        with pytest.raises(DelegationTokenOwnerMismatchError):
            await one.renew(CAROL, hmac, -1)
        with pytest.raises(DelegationTokenNotFoundError):
            await one.renew(ALICE, b"unknown", -1)
        brokers.clock.advance(2 * DAY_MS)
        with pytest.raises(DelegationTokenExpiredError):
            await one.renew(ALICE, hmac, -1)

    run(test)


def test_expired_token_is_removed() -> None:
    async def test(brokers: Brokers) -> None:
        one, other = await brokers.start(), await brokers.start()
        token, removed = [await one.create(ALICE, ALICE, [BOB], -1) for _ in range(2)]
        now = brokers.clock.now_ms()
        with pytest.raises(DelegationTokenOwnerMismatchError):
            await one.expire(CAROL, one.hmac(token), -1)
        assert await other.expire(BOB, one.hmac(token), 1000) == now + 1000
        assert await one.expire(ALICE, one.hmac(removed), -1) == now
        assert await brokers.store.children(token_znodes.TOKENS) == [token.token_id]
        await until(lambda: len(other.tokens()) == 1)
        await one.remove_expired()
        brokers.clock.advance(1001)
        assert other.credential("SCRAM-SHA-256", token.token_id) is None
        await asyncio.gather(one.remove_expired(), other.remove_expired())
        assert await brokers.store.children(token_znodes.TOKENS) == []
        await until(lambda: one.tokens() == other.tokens() == [])
        with pytest.raises(DelegationTokenNotFoundError):
            await one.expire(ALICE, one.hmac(token), -1)

    run(test)


def test_token_that_another_broker_has_renewed_is_not_removed() -> None:
    async def test(brokers: Brokers) -> None:
        controller, other = await brokers.start(), await brokers.start()
        token = await controller.create(ALICE, ALICE, [], -1)
        await controller.close()  # the renewal stays unknown to it
        brokers.clock.advance(HOUR_MS)
        expiry = await other.renew(ALICE, other.hmac(token), -1)
        brokers.clock.advance(DAY_MS - 1)
        await controller.remove_expired()
        assert [t.expiry_timestamp for t in controller.tokens()] == [expiry]

    run(test)


@pytest.mark.parametrize("mechanism", HASHES)
def test_client_with_the_secret_authenticates_as_the_owner(mechanism: str) -> None:
    async def test(brokers: Brokers) -> None:
        one, other = await brokers.start(), await brokers.start()
        token = await one.create(ALICE, BOB, [], -1)
        await until(lambda: bool(other.tokens()))
        password = token_password(one.hmac(token))
        for broker in (one, other, other):
            server = ScramServer(mechanism, lambda _: None, token_of=lambda t, b=broker: b.credential(mechanism, t))  # type: ignore[misc]
            client = ScramClient(mechanism, token.token_id, password, by_token=True)
            client.verify(server.step(client.final(server.step(client.first()))))
            assert (server.user, server.by_token, server.expires) == ("alice", True, token.expiry_timestamp / 1000)
        assert one.credential(mechanism, "unknown") is None

    run(test)


def test_tokens_are_stored_as_kafka_stores_them() -> None:
    async def test(brokers: Brokers) -> None:
        kafkas = TokenInformation(
            "0Vw3FlTUTrSpUIJrA4AzxA",
            "User:CN=alice,O=x",
            BOB,
            ("User:carol*dave",),
            1_700_000_000_000,
            1_700_086_400_000,
            1_700_604_800_000,
        )
        assert json.loads(token_znodes.token_value(kafkas)) == json.loads(FROM_KAFKA)
        assert token_znodes.parse_token(kafkas.token_id, FROM_KAFKA) == kafkas
        before_3_3 = {key: value for key, value in json.loads(FROM_KAFKA).items() if key != "tokenRequester"}
        raw = json.dumps({**before_3_3, "version": 1}).encode()
        assert token_znodes.parse_token(kafkas.token_id, raw) == kafkas._replace(requester=kafkas.owner)
        broker = await brokers.start()
        for path, value in (
            (token_znodes.token_path(kafkas.token_id), FROM_KAFKA),
            (f"{token_znodes.CHANGES}/token_change_", kafkas.token_id.encode()),
        ):
            await brokers.store.multi([Create(path, value, sequence=path.endswith("_"))])
        await until(lambda: broker.tokens() == [kafkas])

    run(test)


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"{", b"[]", b"{}", b"[" * 100_000, FROM_KAFKA.replace(b'n":3', b'n":4'), FROM_KAFKA[:-3] + b'"3"}'),
        *(FROM_KAFKA.replace(b"0Vw3", b"other"), FROM_KAFKA.replace(b"User%3Abob", b"bob")),
    ],
)
def test_malformed_token_is_ignored(value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def test(brokers: Brokers) -> None:
        broker = await brokers.start()
        token = await broker.create(ALICE, ALICE, [], -1)
        await brokers.store.multi([Create(f"{token_znodes.TOKENS}/0Vw3FlTUTrSpUIJrA4AzxA", value)])
        assert (await brokers.start()).tokens() == [token]
        assert "0Vw3FlTUTrSpUIJrA4AzxA is malformed" in caplog.text

    run(test)


def test_broker_that_may_have_missed_notifications_reads_all_tokens() -> None:
    async def test(brokers: Brokers) -> None:
        broker, other = await brokers.start(), await brokers.start()
        removed, renewed = [await other.create(ALICE, ALICE, [], -1) for _ in range(2)]
        await broker.refresh()
        await broker.close()
        await brokers.store.multi([Delete(token_znodes.token_path(removed.token_id))])
        await broker.refresh()
        assert len(broker.tokens()) == 2  # without a notification
        brokers.clock.advance(change_notifications.EXPIRY_SECONDS / 2 * 1000 + 1)
        await broker.refresh()
        assert broker.tokens() == [renewed]

    run(test)


def test_token_larger_than_a_znode_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_token_store, "MAX_NODE_BYTES", 500)

    async def test(brokers: Brokers) -> None:
        broker = await brokers.start()
        with pytest.raises(InvalidRequestError, match="100 renewers"):
            await broker.create(ALICE, ALICE, [f"User:{i}" for i in range(100)], -1)

    run(test)


def test_tokens_remain_while_the_store_is_unreachable(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(brokers: Brokers) -> None:
        broker = await brokers.start()
        token = await broker.create(ALICE, ALICE, [], -1)

        async def fail(*_: object) -> list[str]:
            raise KafkaError("no connection")

        monkeypatch.setattr(broker._store, "children", fail)
        await broker.refresh()
        assert broker.tokens() == [token]
        assert "no connection" in caplog.text

    run(test)
