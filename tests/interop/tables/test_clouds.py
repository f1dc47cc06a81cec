"""Tables in Azure and Google Cloud Storage, with emulators that are slow and sometimes fail."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tests.crash.store_emulators import ACCOUNT, BUCKET, azure_server, gcs_server
from tests.crash.store_front import StoreFront
from tests.interop.tables.upserts import check_upserts
from tests.unit.tables.topics import table_world

from ottla import Broker

pytest.importorskip("pyiceberg")

URLS = {
    "azure": f"abfss://{BUCKET}@{ACCOUNT}.dfs.core.windows.net",
    "google": f"gs://{BUCKET}",
}


def server_of(store: str, monkeypatch: pytest.MonkeyPatch, directory: Path) -> AbstractContextManager[StoreFront]:
    """Return the slow server of a store."""
    return (azure_server if store == "azure" else gcs_server)(monkeypatch, directory, seed=1)


@pytest.mark.parametrize("store", URLS)
def test_delta_table_in_a_cloud_store_with_environment_variables(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    name, tables = f"delta-{store}", tmp_path / "tables"
    configs = {"location": f"{URLS[store]}/{name}", "schema": "json", "mode": "upsert", "compact_files": "2"}
    with (
        server_of(store, monkeypatch, tmp_path / "store"),
        table_world(broker, name, tables, {}, format="delta", **configs) as world,
    ):
        check_upserts(world)
    assert not tables.exists()


@pytest.mark.parametrize("store", URLS)
def test_iceberg_table_in_a_cloud_store_with_properties(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    name, tables = f"iceberg-{store}", tmp_path / "tables"
    configs = {"location": f"{URLS[store]}/{name}", "schema": "json", "mode": "upsert", "compact_files": "2"}
    with server_of(store, monkeypatch, tmp_path / "store"):
        properties = properties_of_environment()
        for variable in ("AZURE_STORAGE_CONNECTION_STRING", "STORAGE_EMULATOR_HOST"):
            monkeypatch.delenv(variable, raising=False)
        with table_world(broker, name, tables, properties, format="iceberg", retention_ms="0", **configs) as world:
            check_upserts(world)
    assert [path.name for path in tables.iterdir()] == ["catalog.db"]


def properties_of_environment() -> dict[str, str]:
    """Return the properties that correspond to the environment variables."""
    if text := os.environ.get("AZURE_STORAGE_CONNECTION_STRING"):
        return {"adls.connection-string": text}
    return {"gcs.service.host": os.environ["STORAGE_EMULATOR_HOST"]}
