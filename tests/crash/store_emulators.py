"""Emulators of Azure Blob Storage (Azurite) and Google Cloud Storage (fake-gcs-server), each behind a slow web server.

`scripts/emulators.sh` installs them. Google's clients use STORAGE_EMULATOR_HOST, and Azure's a connection string, as
with the real store.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from scripts.maven import CACHE
from tests.crash.store_front import Forward, StoreFront, store_front

from ottla.net.ports import free_port
from ottla.remote_log.object_store_settings import EMULATOR

BUCKET = "tier"
ACCOUNT = EMULATOR["accountname"]
KEY = EMULATOR["accountkey"]
AZURITE = CACHE / "emulators" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
FAKE_GCS = CACHE / "emulators" / "fake-gcs-server"


@contextmanager
def azure_server(monkeypatch: pytest.MonkeyPatch, directory: Path, seed: int = 0) -> Iterator[StoreFront]:
    """Serve a container, and set the environment variable that clients use."""
    pytest.importorskip("werkzeug")
    _skip_without(AZURITE)
    command = ["node", str(AZURITE), "--blobPort", "0", "--location", str(directory), "--disableTelemetry"]
    with _process([*command, "--skipApiVersionCheck"], r"listens on http://127.0.0.1:(\d+)") as azurite:
        _create_container(azurite)
        with store_front("azure", azurite, seed) as front:
            monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", azure_connection_string(front.port))
            yield front


def azure_connection_string(port: int) -> str:
    """Return the connection string of the emulator's account, as in Azurite's documentation."""
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
    return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={endpoint};"


def _create_container(port: int) -> None:
    from pyarrow.fs import AzureFileSystem

    authority = f"127.0.0.1:{port}"
    AzureFileSystem(
        account_name=ACCOUNT, account_key=KEY, blob_storage_authority=authority, blob_storage_scheme="http",
        dfs_storage_authority=authority, dfs_storage_scheme="http",
    ).create_dir(BUCKET)  # fmt: skip


@contextmanager
def gcs_server(monkeypatch: pytest.MonkeyPatch, directory: Path, seed: int = 0) -> Iterator[StoreFront]:
    """Serve a bucket, and set the environment variable that clients use."""
    pytest.importorskip("werkzeug")
    _skip_without(FAKE_GCS)
    emulator = free_port()
    command = [str(FAKE_GCS), "-scheme", "http", "-host", "127.0.0.1", "-port", str(emulator), "-log-level", "warn"]
    with store_front("gcs", emulator, seed) as front:
        address = f"127.0.0.1:{front.port}"
        command += ["-backend", "filesystem", "-filesystem-root", str(directory)]
        # The URLs of uploads in responses are those of the slow server.
        with _process([*command, "-external-url", f"http://{address}", "-public-host", address], None):
            bucket = json.dumps({"name": BUCKET}).encode()
            _until_served(emulator)
            Forward(emulator).request("POST", "/storage/v1/b?project=p", bucket, {"content-type": "application/json"})
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{address}")
            yield front


def _skip_without(program: Path) -> None:
    if not program.exists():
        pytest.skip(f"{program.name} is not installed: scripts/emulators.sh installs it")


@contextmanager
def _process(command: list[str], listening: str | None) -> Iterator[int]:
    """Run an emulator, and yield the port in its output."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            port, output = 0, ""
            while listening is not None and not port:
                output += (line := process.stdout.readline())
                assert line, f"{command[0]} ended: {output}"
                if match := re.search(listening, line):
                    port = int(match[1])
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield port
        finally:
            process.kill()


def _until_served(port: int) -> None:
    from tests.interop.eventually import eventually

    def is_served() -> bool:
        try:
            return Forward(port).request("GET", "/_internal/healthcheck")[0] == 200
        except OSError:
            return False

    eventually(is_served, 30)
