"""Accounts and endpoints of Azure and Google Cloud from the environment and connection strings."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.config.options import is_secret
from ottla.errors import ConfigurationError, StartupError
from ottla.remote_log.object_store_settings import EMULATOR, azure_settings, google_settings
from ottla.remote_log.remote_storage import ObjectStorage

NAME, KEY, SAS, ENDPOINT = (
    f"azure_storage_{part}" for part in ("account_name", "account_key", "sas_token", "endpoint")
)
STRING = "DefaultEndpointsProtocol=https;AccountName=lake;AccountKey=a2V5eQ==;EndpointSuffix=core.windows.net"


@pytest.mark.parametrize(
    ("environment", "settings"),
    [
        ({}, {}),
        ({"AZURE_STORAGE_ACCOUNT": "lake", "AZURE_STORAGE_KEY": "k"}, {NAME: "lake", KEY: "k"}),
        (
            {"AZURE_STORAGE_ACCOUNT_NAME": "lake", "AZURE_STORAGE_ACCOUNT": "x", "AZURE_STORAGE_SAS_TOKEN": "sig=1"},
            {NAME: "lake", SAS: "sig=1"},
        ),
        (
            {"AZURE_STORAGE_CONNECTION_STRING": STRING, "AZURE_STORAGE_KEY": "other"},
            {NAME: "lake", KEY: "a2V5eQ==", ENDPOINT: "https://lake.blob.core.windows.net"},
        ),
        (
            {"AZURE_STORAGE_CONNECTION_STRING": "UseDevelopmentStorage=true;"},
            {NAME: EMULATOR["accountname"], KEY: EMULATOR["accountkey"], ENDPOINT: EMULATOR["blobendpoint"]},
        ),
        (
            {
                "AZURE_STORAGE_CONNECTION_STRING": "BlobEndpoint=https://lake.blob.core.windows.net/;"
                "SharedAccessSignature=?sv=1&sig=x%3D"
            },
            {NAME: "lake", SAS: "sv=1&sig=x%3D", ENDPOINT: "https://lake.blob.core.windows.net"},
        ),
    ],
)
def test_azure_account_is_read_from_the_environment(environment: dict[str, str], settings: dict[str, str]) -> None:
    assert azure_settings(environment) == settings


@pytest.mark.parametrize("text", ["AccountKey=secret", "secret"])
def test_malformed_connection_string_is_not_shown_in_errors(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="the connection string of the Azure storage account has") as error:
        azure_settings({"AZURE_STORAGE_CONNECTION_STRING": text})
    assert "secret" not in str(error.value)
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    with pytest.raises(StartupError, match="az://c/p cannot be used: the connection string") as failure:
        ObjectStorage("az://c/p", {})
    assert "secret" not in str(failure.value)
    assert is_secret("rsm.config.azure_storage_connection_string")
    assert is_secret("rsm.config.azure_storage_sas_key")


def test_google_emulator_is_used_with_and_without_credentials() -> None:
    assert google_settings({}) == {}
    emulator = google_settings({"STORAGE_EMULATOR_HOST": "localhost:9023"})
    assert emulator.pop("google_base_url") == "http://localhost:9023"
    assert "disable_oauth" in emulator.pop("google_service_account_key")
    assert not emulator
    both = {"STORAGE_EMULATOR_HOST": "https://gcs:4443/", "GOOGLE_APPLICATION_CREDENTIALS": "key.json"}
    assert google_settings(both) == {"google_base_url": "https://gcs:4443"}
    assert google_settings({**both, "GOOGLE_BASE_URL": "http://b"}) == {"google_base_url": "http://b"}


def test_configured_account_is_not_mixed_with_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", f"{STRING};BlobEndpoint=http://127.0.0.1:1/lake")
    of_environment: Any = ObjectStorage("az://c/p", {})._store
    assert of_environment.config["account_name"] == "lake"
    of_config: Any = ObjectStorage("az://c/p", {NAME: "other", SAS: "sig=1"})._store
    assert of_config.config["account_name"] == "other"
    assert "account_key" not in of_config.config
