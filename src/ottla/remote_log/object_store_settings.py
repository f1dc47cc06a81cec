"""Accounts and endpoints of object stores, from the variables and strings that users of Azure and Google Cloud have.

obstore, delta-rs and Arrow read most of the environment themselves, such as GOOGLE_APPLICATION_CREDENTIALS and
AZURE_CLIENT_ID. This module also reads what they do not: Azure's connection strings, the variables of the Azure CLI,
and STORAGE_EMULATOR_HOST of Google's clients. Settings have obstore's names, which are those of delta-rs as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.errors import ConfigurationError

ACCOUNT: Final = "azure_storage_account_name"
KEY: Final = "azure_storage_account_key"
SAS_TOKEN: Final = "azure_storage_sas_token"
ENDPOINT: Final = "azure_storage_endpoint"
CONNECTION_STRING: Final = "azure_storage_connection_string"
BASE_URL: Final = "google_base_url"
SERVICE_ACCOUNT_KEY: Final = "google_service_account_key"

AZURE_VARIABLES: Final = {
    ACCOUNT: ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"),
    KEY: ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_KEY"),
    SAS_TOKEN: ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY"),
    ENDPOINT: ("AZURE_STORAGE_ENDPOINT",),
}
"""The environment variables of each setting; the first one that is set counts."""
GOOGLE_CREDENTIALS: Final = (
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "GOOGLE_BEARER_TOKEN",
)
NO_ACCOUNT: Final = '{"disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}'
"""A service account's key with which requests have no credentials, for emulators. Without any key, obstore and delta-rs
request a token from the metadata server that machines in the cloud have.
"""
EMULATOR: Final = {
    "defaultendpointsprotocol": "http",
    "accountname": "devstoreaccount1",
    "accountkey": "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
    "blobendpoint": "http://127.0.0.1:10000/devstoreaccount1",
}
"""The settings for which `UseDevelopmentStorage=true` in a connection string stands: the public account of Azure's
emulator, Azurite, at its default address.
"""


def azure_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the account, key, shared access signature and endpoint of Azure that the environment sets.

    A connection string takes precedence over single variables, as in Azure's SDKs. Raises ConfigurationError for an
    invalid connection string.
    """
    if text := environment.get("AZURE_STORAGE_CONNECTION_STRING"):
        return connection_string_settings(text)
    values = {
        setting: next((environment[name] for name in names if environment.get(name)), "")
        for setting, names in AZURE_VARIABLES.items()
    }
    return {setting: value for setting, value in values.items() if value}


def connection_string_settings(text: str) -> dict[str, str]:
    """Return the settings in a connection string of an Azure storage account.

    Raises ConfigurationError for an invalid string. The message does not contain the string, which has a secret.
    """
    parts = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, separator, value = part.partition("=")
        if not separator:
            raise ConfigurationError("the connection string of the Azure storage account has a part without '='")
        parts[name.lower()] = value
    if parts.get("usedevelopmentstorage", "").lower() == "true":
        parts = EMULATOR
    endpoint = parts.get("blobendpoint", "").rstrip("/")
    account = parts.get("accountname") or _account_of(endpoint)
    if not account:
        raise ConfigurationError("the connection string of the Azure storage account has no AccountName")
    if not endpoint and "endpointsuffix" in parts:
        protocol = parts.get("defaultendpointsprotocol", "https")
        endpoint = f"{protocol}://{account}.blob.{parts['endpointsuffix']}"
    values = {
        ACCOUNT: account,
        KEY: parts.get("accountkey", ""),
        SAS_TOKEN: parts.get("sharedaccesssignature", "").removeprefix("?"),
        ENDPOINT: endpoint,
    }
    return {setting: value for setting, value in values.items() if value}


def _account_of(endpoint: str) -> str:
    """Return the account in an endpoint https://ACCOUNT.blob.…; an empty string for other endpoints."""
    host = endpoint.partition("://")[2]
    return host.partition(".")[0] if ".blob." in host else ""


def google_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the endpoint of Google Cloud Storage that the environment sets, and for one from STORAGE_EMULATOR_HOST
    also NO_ACCOUNT as the key, unless the environment has credentials.
    """
    if environment.get("GOOGLE_BASE_URL"):
        return {BASE_URL: environment["GOOGLE_BASE_URL"]}
    emulator = environment.get("STORAGE_EMULATOR_HOST", "")
    if not emulator:
        return {}
    settings = {BASE_URL: emulator.rstrip("/") if "://" in emulator else f"http://{emulator}"}
    if not any(environment.get(name) for name in GOOGLE_CREDENTIALS):
        settings[SERVICE_ACCOUNT_KEY] = NO_ACCOUNT
    return settings


def is_plain_http(settings: Mapping[str, str]) -> bool:
    """Return whether any endpoint in the settings uses HTTP without TLS."""
    return any(
        value.startswith("http://") for name, value in settings.items() if name.endswith(("endpoint", "base_url"))
    )
