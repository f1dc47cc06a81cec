"""The state that a schema registry reads from its topic."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ottla_registry.store.records import Reference, StoredSchema, schema_key, schema_value
from ottla_registry.store.state import RegistryState
from ottla_registry.store.topic import SchemasTopic

KEY = schema_key("orders-value", 1)
SCHEMA = StoredSchema("orders-value", 1, 7, '"string"')


@pytest.mark.parametrize(
    "malformed",
    [
        b"{",
        b"[]",
        b'{"subject": "orders-value"}',
        b'{"subject": "orders-value", "version": 1e999, "id": 7, "schema": "\\"int\\""}',
        schema_value(replace(SCHEMA, references=(Reference("a", "a", 1 << 31),))),
    ],
)
def test_malformed_record_keeps_the_version_that_it_should_replace(malformed: bytes) -> None:
    state = RegistryState()
    state.apply(KEY, schema_value(SCHEMA))
    state.apply(KEY, malformed)
    assert state.version("orders-value", 1) == SCHEMA


def test_record_that_is_nested_too_deeply_is_ignored() -> None:
    state = RegistryState()
    state.apply(KEY, b"[" * 100_000)
    assert state.version("orders-value", 1) is None


def test_version_is_replaced_and_removed_by_records_with_its_key() -> None:
    state = RegistryState()
    state.apply(KEY, schema_value(SCHEMA))
    state.apply(KEY, schema_value(SCHEMA.with_deleted()))
    assert state.version("orders-value", 1) == SCHEMA.with_deleted()
    assert state.by_id(".", 7) == [SCHEMA.with_deleted()]
    state.apply(KEY, None)
    assert state.version("orders-value", 1) is None


def test_schema_with_two_ids_keeps_the_other_one_if_one_is_removed() -> None:
    """An import may give a schema two ids."""
    state, other = RegistryState(), replace(SCHEMA, subject="other-value", id=9)
    state.apply(KEY, schema_value(SCHEMA))
    state.apply(schema_key("other-value", 1), schema_value(other))
    assert state.id_of(".", replace(SCHEMA, subject="new")) == 7
    state.apply(KEY, None)
    assert state.id_of(".", replace(SCHEMA, subject="new")) == 9
    state.apply(schema_key("other-value", 1), schema_value(other.with_deleted()))
    assert state.id_of(".", replace(SCHEMA, subject="new")) == 9
    state.apply(schema_key("other-value", 1), None)
    assert state.id_of(".", replace(SCHEMA, subject="new")) is None


def test_unexpected_error_of_a_record_does_not_end_the_reading_of_the_topic(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    applied: list[bytes] = []

    def apply(key: bytes, _: bytes) -> None:
        if key == b"bad":
            raise ArithmeticError("a bug")
        applied.append(key)

    async def read() -> None:
        topic = SchemasTopic(RegistryState(), {"bootstrap.servers": "127.0.0.1:1"})
        records: list[Any] = [SimpleNamespace(key=key, value=b"", offset=n) for n, key in enumerate((b"bad", b"good"))]

        async def poll(_: float) -> Any:
            if applied:
                await asyncio.Event().wait()
            return {topic._partition: records}

        async def position(*_: Any) -> int:
            return 2

        monkeypatch.setattr(topic._state, "apply", apply)
        monkeypatch.setattr(topic, "_consumer", SimpleNamespace(poll=poll, position=position))
        reader = asyncio.create_task(topic._read())
        await asyncio.wait_for(topic._wait_for(2), 10)
        reader.cancel()
        await asyncio.wait([reader])

    with caplog.at_level(logging.ERROR, "ottla.schema_registry"):
        asyncio.run(read())
    assert applied == [b"good"]
    assert "ignoring the record at offset 0 of topic _schemas" in caplog.text
