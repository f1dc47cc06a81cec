"""The objects of tiered storage, in an object store, accessed by obstore (a library over Rust's object_store): S3 and
stores with its protocol, Google Cloud Storage, Azure Blob Storage, a directory, or memory. Kafka's
RemoteStorageManager.

A segment is one object per file, below `PREFIX/TOPIC-TOPIC_ID/PARTITION/`, named by its base offset, the id of this
copy, and the file's suffix. All methods block and may be called by any thread.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.errors import KafkaError, KafkaStorageError, StartupError
from ottla.remote_log.object_store_settings import (
    BASE_URL,
    CONNECTION_STRING,
    ENDPOINT,
    SERVICE_ACCOUNT_KEY,
    azure_settings,
    connection_string_settings,
    google_settings,
    is_plain_http,
)
from ottla.remote_log.segment_metadata import RemoteLogSegmentMetadata

if TYPE_CHECKING:
    from obstore.store import ObjectStore

CLIENT_OPTIONS: Final = frozenset(
    {"allow_http", "allow_invalid_certificates", "connect_timeout", "pool_idle_timeout", "proxy_url", "timeout"}
)
"""The names of the options of the object store that configure its HTTP client. The other options configure the store.
"""
TIMEOUTS: Final = {"connect_timeout": "5s", "timeout": "30s"}
S3_ENDPOINTS: Final = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
AZURE_SCHEMES: Final = ("az:", "abfs:", "abfss:")
RETRIES: Final = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}
"""Retries within a request to the store."""
PART_BYTES: Final = 8 * 1024 * 1024
PARTS_AT_ONCE: Final = 2
"""Maximum number of parts of a segment, of PART_BYTES each, that are uploaded at the same time.

Each part is read from the segment's file when it is uploaded, so that large segments do not fill the memory.
"""


class RemoteStorageError(KafkaStorageError):
    """Remote storage cannot be reached or has failed, an object in it is damaged, or a file to be copied is missing or
    has changed.
    """


class RemoteObjectMissingError(RemoteStorageError):
    """An object is not in remote storage."""


class RemoteFile(Enum):
    """The files of a segment in remote storage. The value is the suffix of the object's name."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TRANSACTION_INDEX = ".txnindex"
    PRODUCER_SNAPSHOT = ".snapshot"
    """The producers' state at the end of the segment."""
    LEADER_EPOCHS = ".leader-epoch-checkpoint"
    """The leader epochs of the log up to the end of the segment."""


def object_name(segment: RemoteLogSegmentMetadata, file: RemoteFile) -> str:
    """Return the name of an object without the prefix in the store's URL."""
    partition = segment.partition
    return (
        f"{partition.topic}-{partition.topic_id}/{partition.partition}/"
        f"{segment.start_offset:020d}-{segment.id}{file.value}"
    )


class RemoteStorage(Protocol):
    """An object store. Methods raise RemoteStorageError."""

    def put(self, name: str, content: Path | bytes) -> None:
        """Write an object. It appears as a whole, or not at all."""
        ...

    def get(self, name: str) -> bytes:
        """Return the content of an object. Raises RemoteObjectMissingError if there is none."""
        ...

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """Return `length` bytes of an object from `start` on; fewer only if the object ends before. Raises
        RemoteObjectMissingError if there is none.
        """
        ...

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects. Missing ones are ignored."""
        ...


class ObjectStorage:
    """Remote storage that is accessed by obstore."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        """Create a client of the store at `url`, without a request to the store. A directory (`file:`) is created.

        Raises StartupError if the library is missing, or the store cannot be used, for example because the URL or an
        option is invalid.
        """
        try:
            import obstore
        except ImportError:
            raise StartupError(
                "remote.log.storage.system.enable requires obstore: install it with pip install 'ottla[tiered]'"
            ) from None
        self.url = url
        self._library = obstore
        try:
            self._store = _open(url, tuple(sorted(options.items())))
        except Exception as error:
            cause = str(error).partition("\n")[0]
            raise StartupError(f"rsm.config.url: {url} cannot be used: {cause}") from None

    def put(self, name: str, content: Path | bytes) -> None:
        try:
            self._library.put(self._store, name, content, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE)
        except FileNotFoundError:
            raise RemoteStorageError(f"{content!s} was deleted before it was copied") from None
        except Exception as error:
            raise self._error("write", name, error) from error

    def get(self, name: str) -> bytes:
        try:
            return bytes(self._library.get(self._store, name).bytes())
        except Exception as error:
            raise self._error("read", name, error) from error

    def get_range(self, name: str, start: int, length: int) -> bytes:
        try:
            return bytes(self._library.get_range(self._store, name, start=start, length=length))
        except Exception as error:
            raise self._error("read", name, error) from error

    def delete(self, names: Sequence[str]) -> None:
        try:
            self._library.delete(self._store, list(names))
            return
        except FileNotFoundError:
            pass  # some stores stop at the first missing one
        except Exception as error:
            raise self._error("delete", names[0], error) from error
        for name in names:
            try:
                self._library.delete(self._store, name)
            except FileNotFoundError:
                continue
            except Exception as error:
                raise self._error("delete", name, error) from error

    def list(self, prefix: str = "") -> list[str]:
        """Return the names of all objects in the directory `prefix`, sorted. Raises RemoteStorageError."""
        try:
            pages = self._library.list(self._store, prefix or None)
            return sorted(item["path"] for page in pages for item in page)
        except Exception as error:
            raise self._error("list", prefix, error) from error

    def _error(self, doing: str, name: str, error: Exception) -> KafkaError:
        """Convert an error of the library to a RemoteStorageError. Of its message, which has several lines, use at most
        the first.
        """
        cause = str(error).partition("\n")[0]
        if isinstance(error, FileNotFoundError):
            return RemoteObjectMissingError(f"{self.url}: {name} is missing")
        return RemoteStorageError(f"{self.url}: cannot {doing} {name}: {cause}")


def _open(url: str, options: tuple[tuple[str, str], ...]) -> ObjectStore:
    if url.startswith("memory:"):
        return _memory(url)
    from obstore.store import from_url

    if url.startswith("file:"):
        return from_url(url, mkdir=True)
    config: dict[str, Any] = {key: value for key, value in options if key not in CLIENT_OPTIONS}
    client: dict[str, Any] = {**TIMEOUTS, **{key: value for key, value in options if key in CLIENT_OPTIONS}}
    if url.startswith("gs:"):
        config = {**_google_defaults(config), **config}
    elif url.startswith(AZURE_SCHEMES):
        if (text := config.pop(CONNECTION_STRING, None)) is not None:
            config = {**connection_string_settings(text), **config}
        config = {**_azure_defaults(config), **config}
    s3_endpoints = [os.environ.get(name, "") for name in S3_ENDPOINTS] if url.startswith("s3:") else []
    if is_plain_http(config) or any(endpoint.startswith("http://") for endpoint in s3_endpoints):
        client.setdefault("allow_http", True)
    return from_url(url, config=config, client_options=client, retry_config=RETRIES)  # type: ignore[call-overload,no-any-return]


def _azure_defaults(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the environment adds to `config`.

    If the config sets anything but the endpoint, such as an account or a key, only the endpoint comes from the
    environment, because account and key belong together.
    """
    settings = azure_settings(os.environ)
    if config.keys() - {ENDPOINT}:
        return {name: value for name, value in settings.items() if name == ENDPOINT and not config.get(name)}
    return settings


def _google_defaults(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the environment adds to `config`: without the emulator's key if the config sets anything
    but the endpoint, such as credentials.
    """
    settings = google_settings(os.environ)
    if config.keys() - {BASE_URL}:
        settings.pop(SERVICE_ACCOUNT_KEY, None)
    return settings


@functools.cache
def _memory(url: str) -> ObjectStore:
    """Return a store in the memory of this process. All brokers of the process with the same `url` share it."""
    from obstore.store import MemoryStore

    return MemoryStore()
