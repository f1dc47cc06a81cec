"""Properties and locations of tables in object stores."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest

from ottla.config.topic import TopicConfig
from ottla.errors import ConfigurationError
from ottla_tables.file_io import TableFileIO
from ottla_tables.formats.delta import DeltaLakeTable
from ottla_tables.formats.factory import TableFactory
from ottla_tables.formats.table import TableIdentity
from ottla_tables.object_store import ObjectStore

STRING = "DefaultEndpointsProtocol=https;AccountName=lake;AccountKey=a2V5eQ==;EndpointSuffix=core.windows.net"


def test_table_properties_are_read_from_the_connection_string() -> None:
    store = ObjectStore({}, {"AZURE_STORAGE_CONNECTION_STRING": STRING, "STORAGE_EMULATOR_HOST": "http://h:1"})
    options = store.storage_options
    assert options["azure_storage_account_name"] == "lake"
    assert options["azure_storage_endpoint"] == "https://lake.blob.core.windows.net"
    assert options["google_base_url"] == "http://h:1"
    assert store.properties["adls.blob-storage-authority"] == ".blob.core.windows.net"
    assert store.properties["adls.dfs-storage-authority"] == ".dfs.core.windows.net"
    own = ObjectStore({"adls.sas-token": "sig=1"}, {"AZURE_STORAGE_CONNECTION_STRING": STRING})
    assert own.storage_options == {"azure_storage_sas_token": "sig=1"}


def test_azure_location_has_container_and_account() -> None:
    location = TableFileIO.parse_location("abfss://lake@account.dfs.core.windows.net/t/a=1@2/f")
    assert location == ("abfss", "lake@account.dfs.core.windows.net", "lake/t/a=1@2/f")
    assert TableFileIO.parse_location("gs://lake/t") == ("gs", "lake", "lake/t")


def test_iceberg_rejects_a_location_that_its_readers_do_not_support(tmp_path: Path) -> None:
    config = TopicConfig({"ottla.table.format": "iceberg", "ottla.table.location": "az://lake/t"})
    factory = TableFactory(tmp_path, {})
    with pytest.raises(ConfigurationError, match="use abfss://CONTAINER@ACCOUNT"):
        factory.open(TableIdentity("t", UUID(int=1)), config, pa.schema([("offset", pa.int64())]))


def test_session_token_of_another_key_in_the_environment_is_rejected(tmp_path: Path) -> None:
    own = {"s3.access-key-id": "own", "s3.secret-access-key": "secret"}
    environment = {"AWS_ACCESS_KEY_ID": "other", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}
    message = "s3.access-key-id=own of --catalog-config has no s3.session-token.*: unset AWS_SESSION_TOKEN, or set"
    with pytest.raises(ConfigurationError, match=message):
        DeltaLakeTable("s3://lake/t", None, (), TableIdentity("t", UUID(int=1)), ObjectStore(own, environment))
    for properties in ({}, {**own, "s3.session-token": "own"}):
        ObjectStore(properties, environment).check_session_token()
