"""File access of pyiceberg through Arrow, extended for Azure, for emulators of Google Cloud Storage, and for local
files, which are synced to disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pyarrow.fs import GcsFileSystem
from pyiceberg.io import ADLS_ACCOUNT_NAME, GCS_SERVICE_HOST, GCS_TOKEN
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties

from ottla_tables.synced import SyncedStream


class LocalFile(PyArrowFile):
    """A file in a local directory, which is synced to disk when it is closed."""

    def create(self, overwrite: bool = False) -> Any:
        """Create the file, and return a stream to it. Closing the stream waits until the file is on disk."""
        return SyncedStream(super().create(overwrite), Path(self._path))


AZURE: Final = ("abfs", "abfss", "wasb", "wasbs", "az")


class TableFileIO(PyArrowFileIO):
    """pyiceberg's access to the files of tables.

    The URLs of Azure that Spark, Trino and others read name a container and an account:
    abfss://CONTAINER@ACCOUNT.…/PATH. pyiceberg would pass both to Arrow as the name of the container; this class passes
    only the container.
    """

    @staticmethod
    def parse_location(location: str, properties: Properties = EMPTY_DICT) -> tuple[str, str, str]:
        """Return the scheme, host and path of a location. In an Azure URL with an account, the path begins with the
        container.
        """
        scheme, host, path = PyArrowFileIO.parse_location(location, properties)
        if scheme in AZURE and "@" in host:
            path = host.partition("@")[0] + path.removeprefix(host)
        return scheme, host, path

    def new_output(self, location: str) -> PyArrowFile:
        """Return a file to write. A file in a local directory is a `LocalFile`."""
        scheme, host, path = self.parse_location(location, self.properties)
        if scheme == "file":
            return LocalFile(fs=self.fs_by_scheme(scheme, host), location=location, path=path)
        return super().new_output(location)

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> Any:
        if scheme in AZURE:
            account = (netloc or "").partition("@")[2].partition(".")[0]
            if account and not self.properties.get(ADLS_ACCOUNT_NAME):
                return TableFileIO({**self.properties, ADLS_ACCOUNT_NAME: account})._initialize_azure_fs()
            return self._initialize_azure_fs()
        host = self.properties.get(GCS_SERVICE_HOST, "")
        if scheme in ("gs", "gcs") and host.startswith("http://") and GCS_TOKEN not in self.properties:
            return GcsFileSystem(anonymous=True, scheme="http", endpoint_override=host.partition("://")[2].rstrip("/"))
        return super()._initialize_fs(scheme, netloc)
