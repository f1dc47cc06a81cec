"""Tables in an S3 store that is slow and sometimes fails, with a PostgreSQL catalog and REST catalogs."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts import maven
from tests.crash.s3_server import BUCKET, s3_server
from tests.interop.java_clients import SOURCES
from tests.interop.tables.upserts import check_upserts, write_all
from tests.unit.pipelines.conftest import postgresql_url as postgresql_url
from tests.unit.tables.topics import table_world

from ottla import Broker
from ottla.client.admin.configs import TOPIC, ConfigResource
from ottla_tables.object_store import ObjectStore

pytest.importorskip("pyiceberg")
ICEBERG = "1.10.1"
REST_CATALOG = (
    f"org.apache.iceberg:iceberg-core:{ICEBERG}",
    f"org.apache.iceberg:iceberg-core:{ICEBERG}:tests",
    "org.eclipse.jetty:jetty-servlet:11.0.26",
    "org.slf4j:slf4j-nop:2.0.17",
)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Properties of the store, which are removed from the environment."""
    with s3_server(monkeypatch, seed=1):
        endpoint = os.environ["AWS_ENDPOINT"]
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        yield {
            "s3.endpoint": endpoint,
            "s3.region": "us-east-1",
            "s3.access-key-id": "key",
            "s3.secret-access-key": "secret",
        }


def test_delta_table_in_s3(broker: Broker, tmp_path: Path, s3: dict[str, str]) -> None:
    location = f"s3://{BUCKET}/delta"
    with table_world(
        broker,
        "s3-delta",
        tmp_path,
        s3,
        format="delta",
        location=location,
        schema="json",
        mode="upsert",
        compact_files="2",
    ) as world:
        check_upserts(world)
    assert not list(tmp_path.iterdir())


def test_iceberg_table_in_s3_with_a_postgresql_catalog(
    broker: Broker, tmp_path: Path, s3: dict[str, str], postgresql_url: str
) -> None:
    check_iceberg(broker, "postgresql", tmp_path, s3, postgresql_url.replace("postgresql:", "postgresql+psycopg:"))


@pytest.fixture(scope="module")
def rest_catalog() -> Iterator[str]:
    """URL of Iceberg's own REST catalog, in Java."""
    if reason := maven.missing():
        pytest.skip(reason)
    libs = maven.jars("iceberg-rest", *REST_CATALOG)
    classes = maven.compiled("iceberg-rest", libs, [SOURCES / "IcebergCatalog.java"])
    command = ["java", "-Xmx256M", *maven.SHORT_LIVED, "-cp", f"{classes}:{libs}/*", "IcebergCatalog"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()


def test_iceberg_table_in_s3_with_a_rest_catalog(
    broker: Broker, tmp_path: Path, s3: dict[str, str], rest_catalog: str
) -> None:
    check_iceberg(broker, "rest", tmp_path, s3, rest_catalog)


class VendingCatalog:
    """A REST catalog with one table, which it returns with credentials. A WSGI application."""

    def __init__(self, metadata: str, location: str, credentials: dict[str, str]) -> None:
        self._metadata = json.loads(metadata)
        self._location = location
        self._credentials = credentials

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        response: dict[str, Any] = {"defaults": {}, "overrides": {}}
        if environ["PATH_INFO"].endswith("/tables/vended"):
            response = {
                "metadata-location": self._location,
                "metadata": self._metadata,
                "config": {},
                "storage-credentials": [{"prefix": f"s3://{BUCKET}/", "config": self._credentials}],
            }
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(response).encode()]


def test_spark_tasks_read_with_the_credentials_of_the_catalog(
    broker: Broker, tmp_path: Path, s3: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    from werkzeug.serving import make_server

    from ottla.spark.options.options import read_options
    from ottla_tables.spark.source import TableSource

    location = f"s3://{BUCKET}/vended"
    with table_world(broker, "vended", tmp_path, s3, format="iceberg", location=location) as world:
        world.send(b"in a file")
        write_all(world.service())
        world.send(b"in the log")
        table: Any = world.table()
        catalog = VendingCatalog(table._table.metadata.model_dump_json(), table._table.metadata_location, s3)
        server = make_server("127.0.0.1", 0, catalog, threaded=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            resource = ConfigResource(TOPIC, "vended")
            world.admin.incremental_alter_configs({resource: {"ottla.table.catalog": url}})
            options = {"kafka.bootstrap.servers": world.servers, "subscribe": "vended", "ottla.table": "true"}
            source = TableSource(read_options(options, streaming=False))
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
                monkeypatch.setenv(name, "of another store")
            reader = source.reader(source.schema())
            tasks: Any = [pickle.loads(pickle.dumps(partition)) for partition in reader.partitions()]
            assert s3["s3.secret-access-key"] not in repr(tasks)
            assert tasks[0].store.items() >= s3.items()
            assert "s3.session-token" not in ObjectStore(tasks[0].store).properties
            values = [row["value"] for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
            assert values == [b"in a file", b"in the log"]
        finally:
            server.shutdown()
            server.server_close()


def check_iceberg(broker: Broker, name: str, directory: Path, properties: dict[str, str], catalog: str) -> None:
    """Check a table in S3 with a catalog. `name` is the topic."""
    location = f"s3://{BUCKET}/{name}"
    configs: Any = {
        "format": "iceberg",
        "location": location,
        "catalog": catalog,
        "compact_files": "2",
        "retention_ms": "0",
    }
    with table_world(
        broker, name, directory, properties, **configs, partition_by="day(timestamp)", schema="json", mode="upsert"
    ) as world:
        check_upserts(world)
    assert not list(directory.iterdir())
