"""Kafka's tools and classes with a tiered topic, most of whose records are only in the object store."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts import apache_kafka, maven
from tests.interop.dumped_logs import compare, files
from tests.interop.java_clients import SOURCES
from tests.interop.kafka_jars import run_tool
from tests.unit.remote_log.tiered_topic import TieredTopic, configs

from ottla.broker.embedded import Broker
from ottla.cli.main import main
from ottla.cluster.store.znodes import uuid_text

pytestmark = pytest.mark.interop

RECORDS = 100
LOCAL = 98
"""The first local offset: less than a tenth of the records are on the broker's disk."""


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredTopic]:
    data = tmp_path_factory.mktemp("tiered")
    with Broker(configs(f"file://{data}/store"), data_dir=data / "data") as broker:
        topic = TieredTopic(broker)
        topic.produce(RECORDS)
        topic.wait_local_start(LOCAL)
        yield topic


def test_ottla_get_offsets_lists_the_tiered_offsets_as_kafka_get_offsets(
    tiered: TieredTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    server = ("--bootstrap-server", tiered.broker.bootstrap_servers, "--topic", "t")
    for time, expected in (("-1", RECORDS), ("-2", 0), ("-4", LOCAL), ("-5", LOCAL - 1), ("-3", RECORDS - 1)):
        kafkas = run_tool("org.apache.kafka.tools.GetOffsetShell", *server, "--time", time)
        assert kafkas.stdout == f"t:0:{expected}\n", kafkas.stderr
        assert main(["get-offsets", *server, "--time", time]) == 0
        assert capsys.readouterr().out == kafkas.stdout


def test_kafka_console_consumer_reads_records_that_are_only_in_the_store(tiered: TieredTopic) -> None:
    done = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", tiered.broker.bootstrap_servers,
        "--topic", "t", "--from-beginning", "--max-messages", str(RECORDS), "--timeout-ms", "30000",
    )  # fmt: skip
    assert [int(line[:6]) for line in done.stdout.splitlines()] == list(range(RECORDS)), done.stderr


def test_librdkafka_reads_records_that_are_only_in_the_store(tiered: TieredTopic) -> None:
    kafka = pytest.importorskip("confluent_kafka")
    consumer = kafka.Consumer({"bootstrap.servers": tiered.broker.bootstrap_servers, "group.id": "g"})
    try:
        consumer.assign([kafka.TopicPartition("t", 0, 0)])
        records = [record for record in consumer.consume(RECORDS, timeout=30) if not record.error()]
        assert [int(record.value()[:6]) for record in records] == list(range(RECORDS))
        assert consumer.get_watermark_offsets(kafka.TopicPartition("t", 0), timeout=10) == (0, RECORDS)
    finally:
        consumer.close()


def test_kafka_configs_changes_the_local_retention(tiered: TieredTopic) -> None:
    topic = ("--bootstrap-server", tiered.broker.bootstrap_servers, "--entity-type", "topics", "--entity-name", "t")
    altered = run_tool("kafka.admin.ConfigCommand", *topic, "--alter", "--add-config", "local.retention.bytes=2")
    assert altered.stdout == "Completed updating config for topic t.\n", altered.stderr
    described = run_tool("kafka.admin.ConfigCommand", *topic, "--describe").stdout
    for setting in ("remote.storage.enable=true", "local.retention.bytes=2"):
        assert f"  {setting} sensitive=false" in described


def test_dump_log_prints_remote_log_metadata_as_kafka(tiered: TieredTopic, tmp_path: Path) -> None:
    printed = ""
    for number in range(2):
        copy = tmp_path / f"__remote_log_metadata-{number}"
        shutil.copytree(tiered.broker.data_dir / copy.name, copy)
        if (copy / f"{0:020d}.log").stat().st_size:
            printed += compare("--remote-log-metadata-decoder", "--files", files(copy, ".log"))
    assert printed.count("state=COPY_SEGMENT_STARTED") == printed.count("state=COPY_SEGMENT_FINISHED") == LOCAL // 7


def test_kafkas_remote_log_metadata_manager_reads_our_topic(tiered: TieredTopic, tmp_path: Path) -> None:
    version = "3.9.2"
    reason = apache_kafka.missing(version)
    if reason:
        pytest.skip(f"Apache Kafka {version}: {reason}")
    libs = apache_kafka.libs(version)
    sources = [SOURCES / f"{name}.java" for name in ("Check", "RemoteLogMetadata")]
    classes = maven.compiled(f"kafka-{version}", libs, sources)
    command = ["java", "-Xmx256M", *apache_kafka.SHORT_LIVED, "-cp", f"{classes}:{libs}/*", "RemoteLogMetadata"]
    topic_id = uuid_text(tiered.partition().topic_id)
    done = subprocess.run(
        [*command, tiered.broker.bootstrap_servers, "t", topic_id, "2", str(tmp_path), str(LOCAL // 7)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.endswith("done\n"), f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    segments = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("segment ")]
    assert segments == [[str(i), str(i + 6), "COPY_SEGMENT_FINISHED"] for i in range(0, LOCAL, 7)]
    assert f"highest {LOCAL - 1}\n" in done.stdout
