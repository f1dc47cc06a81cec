"""The state that a schema registry reads from its topic."""

from __future__ import annotations

import pytest

from ottla_registry.store.records import StoredSchema, schema_key, schema_value
from ottla_registry.store.state import RegistryState

KEY = schema_key("orders-value", 1)
SCHEMA = StoredSchema("orders-value", 1, 7, '"string"')


@pytest.mark.parametrize("malformed", [b"{", b"[]", b'{"subject": "orders-value"}'])
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
