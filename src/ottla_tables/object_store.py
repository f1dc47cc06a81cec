"""Access to the files of tables in object stores, with the same properties for all formats: those of pyiceberg."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from ottla.errors import ConfigurationError
from ottla.remote_log import object_store_settings as settings

SESSION_TOKEN: Final = "AWS_SESSION_TOKEN"
S3_VARIABLES: Final = {
    "s3.endpoint": ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"),
    "s3.region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "s3.access-key-id": ("AWS_ACCESS_KEY_ID",),
    "s3.secret-access-key": ("AWS_SECRET_ACCESS_KEY",),
    "s3.session-token": (SESSION_TOKEN,),
}
"""The properties for S3, each with its environment variables, of which the first that is set is used if the property is
not set. The variables of S3_CREDENTIALS are used only together: if the properties have no key, and the environment has
one. The first variable is also the name of delta-rs' option.
"""
S3_CREDENTIALS: Final = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")
"""The credentials for S3. They belong together: a session token from the environment is not valid for a key from the
properties.
"""
AZURE_PROPERTIES: Final = {
    settings.ACCOUNT: "adls.account-name",
    settings.KEY: "adls.account-key",
    settings.SAS_TOKEN: "adls.sas-token",
    "azure_storage_tenant_id": "adls.tenant-id",
    "azure_storage_client_id": "adls.client-id",
    "azure_storage_client_secret": "adls.client-secret",
}
"""The properties for Azure, by the names of delta-rs' options."""
AZURE_CONNECTION_STRING: Final = "adls.connection-string"
AZURE_CREDENTIALS: Final = (*AZURE_PROPERTIES.values(), AZURE_CONNECTION_STRING)
BLOB_HOST: Final = "adls.blob-storage-authority"
BLOB_SCHEME: Final = "adls.blob-storage-scheme"
"""BLOB_HOST and BLOB_SCHEME: the properties with the host (and port) and the scheme of an Azure endpoint. They are
set only if the account's settings have an endpoint. The account's name comes before a host that begins with a dot, and
otherwise after the host, as the first part of the path.
"""
AZURE_ENDPOINT: Final = (BLOB_HOST, BLOB_SCHEME, "adls.dfs-storage-authority", "adls.dfs-storage-scheme")
GOOGLE_HOST: Final = "gcs.service.host"
GOOGLE_TOKEN: Final = "gcs.oauth2.token"
CREDENTIALS: Final = frozenset({*S3_CREDENTIALS, *AZURE_CREDENTIALS, GOOGLE_TOKEN})
"""Properties that a catalog may send with a table, and which must not be mixed with those of the environment."""


class ObjectStore:
    """The properties of the object stores of a writer or a query, and access to their files.

    Args:
        properties: such as `s3.endpoint` and `s3.access-key-id`.
        environment: environment variables, from which those of AWS, Azure and Google Cloud are read.
    """

    def __init__(self, properties: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> None:
        self.properties = dict(properties)
        self._environment = environment
        from_properties = properties.get(S3_CREDENTIALS[0]) or not environment.get("AWS_ACCESS_KEY_ID")
        for name, variables in S3_VARIABLES.items():
            if from_properties and name in S3_CREDENTIALS:
                continue
            values = (environment[variable] for variable in variables if environment.get(variable))
            if (value := self.properties.get(name) or next(values, None)) is not None:
                self.properties[name] = value
        self.properties = {**azure_properties(properties, environment), **self.properties}
        if (url := settings.google_settings(environment).get(settings.BASE_URL)) is not None:
            self.properties.setdefault(GOOGLE_HOST, url)
        self._io: Any = None

    def check_session_token(self) -> None:
        """Raise ConfigurationError if delta-rs, which reads the environment itself, would combine the configured key
        with a session token from the environment.
        """
        key, _, token = S3_CREDENTIALS
        if self.properties.get(key) and not self.properties.get(token) and self._environment.get(SESSION_TOKEN):
            raise ConfigurationError(
                f"{key}={self.properties[key]} of --catalog-config has no {token}, and Delta would send the"
                f" environment's {SESSION_TOKEN} with it: unset {SESSION_TOKEN}, or set {token}"
            )

    @property
    def storage_options(self) -> dict[str, str]:
        """The properties as delta-rs expects them."""
        options = dict(self.properties)
        for name, (option, *_) in S3_VARIABLES.items():
            if name in options:
                options[option] = options.pop(name)
        if options.get("AWS_ENDPOINT_URL", "").startswith("http://"):
            options["AWS_ALLOW_HTTP"] = "true"
        others = _azure_options(self.properties) | _google_options(self.properties)
        if settings.is_plain_http(others):
            others["allow_http"] = "true"
        return {name: value for name, value in options.items() if not name.startswith(("adls.", "gcs."))} | others

    def file_system(self, path: str) -> tuple[Any, str]:
        """Return the Arrow file system of a URL, and the path in it."""
        if self._io is None:
            from ottla_tables.file_io import TableFileIO

            self._io = TableFileIO(self.properties)
        scheme, host, key = self._io.parse_location(path, self.properties)
        return self._io.fs_by_scheme(scheme, host), key


def azure_properties(properties: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of an Azure account: those in the connection string of `properties`. Without a connection
    string, return those of the environment, unless `properties` contain credentials of their own.
    """
    if text := properties.get(AZURE_CONNECTION_STRING):
        values = settings.connection_string_settings(text)
    elif not any(properties.get(name) for name in AZURE_CREDENTIALS):
        values = settings.azure_settings(environment)
    else:
        values = {}
    result = {name: values[option] for option, name in AZURE_PROPERTIES.items() if option in values}
    if settings.ENDPOINT in values and BLOB_HOST not in properties:
        endpoint = urlsplit(values[settings.ENDPOINT])
        account = values.get(settings.ACCOUNT, "")
        host = endpoint.netloc.removeprefix(account) if endpoint.netloc.startswith(f"{account}.") else endpoint.netloc
        # Arrow asks the endpoint of Data Lake Storage whether a container has directories.
        dfs_host = host.replace(".blob.", ".dfs.", 1) if host.startswith(".blob.") else host
        result |= dict(zip(AZURE_ENDPOINT, (host, endpoint.scheme, dfs_host, endpoint.scheme), strict=True))
    return result


def _azure_options(properties: Mapping[str, str]) -> dict[str, str]:
    options = {option: properties[name] for option, name in AZURE_PROPERTIES.items() if properties.get(name)}
    host, account = properties.get(BLOB_HOST), options.get(settings.ACCOUNT)
    if host and account:
        place = f"{account}{host}" if host.startswith(".") else f"{host}/{account}"
        options[settings.ENDPOINT] = f"{properties.get(BLOB_SCHEME, 'https')}://{place}"
    return options


def _google_options(properties: Mapping[str, str]) -> dict[str, str]:
    host = properties.get(GOOGLE_HOST, "").rstrip("/")
    options = {settings.BASE_URL: host} if host else {}
    if host.startswith("http://"):
        options[settings.SERVICE_ACCOUNT_KEY] = settings.NO_ACCOUNT
    return options
