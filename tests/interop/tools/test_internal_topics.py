"""Internal topics of Ottla and Apache Kafka: the tools of both print the same output."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.interop.dumped_logs import compare, files
from tests.interop.kafka_jars import kafka, run_tool
from tests.interop.kafka_on_zookeeper import kafka_or_skip
from tests.unit.client.streams_thread import StreamsThread

from ottla import (
    Broker,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    KafkaShareConsumer,
    NewTopic,
)
from ottla.cli.main import main
from ottla.net.ports import free_port

pytestmark = pytest.mark.interop

FORMATTERS = "org.apache.kafka.tools.consumer."
OWN_GROUPS = "console-consumer-"
RECORDS = 10


class Cluster(NamedTuple):
    """A broker's address, and a copy of its log directory with records in the internal topics."""

    address: str
    logs: Path


@pytest.fixture(scope="module", params=["ottla", "kafka-4.3.1"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("broker")
    if request.param == "ottla":
        with Broker(data_dir=directory / "log") as broker:
            yield fill_internal_topics(broker.bootstrap_servers, directory)
        return
    kafka_or_skip(request.param.removeprefix("kafka-"))
    with kafka(directory, free_port(in_a_row=2), kill=True) as address:
        yield fill_internal_topics(address, directory)


def fill_internal_topics(address: str, directory: Path) -> Cluster:
    """Use groups of all types and a transaction, and copy the log directory."""
    with KafkaAdminClient(bootstrap_servers=address) as admin:
        admin.create_topics([NewTopic("t", 2, 1), NewTopic("u", 1, 1, topic_configs={"retention.ms": "7"})])
        share = ConfigResource(ConfigResourceType.GROUP, "share")
        admin.alter_configs({share: {"share.auto.offset.reset": "earliest"}})
        with KafkaProducer(bootstrap_servers=address, transactional_id="tx") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for number in range(RECORDS):
                producer.send("t", b"x", partition=number % 2)
            producer.commit_transaction()
        for protocol in ("classic", "consumer"):
            joining: dict[str, Any] = {
                "group_id": protocol,
                "group_protocol": protocol,
                "auto_offset_reset": "earliest",
            }
            with KafkaConsumer("t", bootstrap_servers=address, **joining) as consumer:
                read(consumer)
                consumer.commit()
        pattern: dict[str, Any] = {"group_id": "pattern", "group_protocol": "consumer", "auto_offset_reset": "earliest"}
        with KafkaConsumer(bootstrap_servers=address, **pattern) as consumer:
            consumer.subscribe(pattern="t|u")
            read(consumer)
        with KafkaShareConsumer("t", bootstrap_servers=address, group_id="share") as shared:
            read(shared)
            shared.commit()
        with StreamsThread(address, "streams", "t") as thread:
            thread.beat()
        admin.delete_topics(["u"])
    copy = directory / "copy"
    shutil.copytree(directory / "log", copy, ignore=shutil.ignore_patterns("u-*", "*.tmp"))  # u is deleted
    return Cluster(address, copy)


def read(consumer: Any) -> None:
    count = 0
    while count < RECORDS:
        count += sum(map(len, consumer.poll(timeout_ms=1000).values()))


@pytest.mark.parametrize(
    ("decoder", "topic"),
    [
        ("--offsets-decoder", "__consumer_offsets"),
        ("--transaction-log-decoder", "__transaction_state"),
        ("--share-group-state-decoder", "__share_group_state"),
    ],
)
def test_dump_log_decoders_print_the_output_of_kafkas(decoder: str, topic: str, cluster: Cluster) -> None:
    logs = [files(path, ".log") for path in sorted(cluster.logs.glob(f"{topic}-*")) if has_records(path)]
    printed = compare(decoder, "--files", ",".join(logs))
    assert '"data":{' in printed
    assert "Unknown record type" not in printed


def has_records(directory: Path) -> bool:
    return any(path.stat().st_size for path in directory.glob("*.log"))


def test_dump_log_prints_the_kraft_metadata_log_as_kafka(cluster: Cluster) -> None:
    metadata = cluster.logs / "__cluster_metadata-0"
    if not metadata.exists():
        pytest.skip("Ottla has no metadata log")
    paths = f"{files(metadata, '.log')},{cluster.logs / 'bootstrap.checkpoint'}"
    printed = compare("--cluster-metadata-decoder", "--files", paths)
    for kind in ("REGISTER_BROKER_RECORD", "FEATURE_LEVEL_RECORD", "PARTITION_RECORD", "NO_OP_RECORD"):
        assert f'"type":"{kind}"' in printed
    compare("--files", paths)


@pytest.mark.compatibility("Kafka's tools", "internal topics", "ConsoleConsumer with its formatters")
@pytest.mark.parametrize(
    ("formatter", "topic"),
    [
        (f"{FORMATTERS}OffsetsMessageFormatter", "__consumer_offsets"),
        (f"{FORMATTERS}GroupMetadataMessageFormatter", "__consumer_offsets"),
        (f"{FORMATTERS}TransactionLogMessageFormatter", "__transaction_state"),
        (f"{FORMATTERS}group.share.ShareGroupStateMessageFormatter", "__share_group_state"),
    ],
)
def test_console_consumer_formatters_print_the_output_of_kafkas(
    formatter: str, topic: str, cluster: Cluster, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    reading = ("--bootstrap-server", cluster.address, "--topic", topic, "--from-beginning", "--timeout-ms", "2000")
    formatted = ("--formatter", formatter)
    theirs = run_tool(f"{FORMATTERS}ConsoleConsumer", *reading, *formatted).stdout
    capfdbinary.readouterr()
    assert main(["console-consumer", *reading, *formatted]) == 0
    mine = capfdbinary.readouterr().out.decode()
    assert lines(mine) == lines(theirs)
    assert lines(mine)


def lines(output: str) -> list[str]:
    """Return the printed records, without those about the groups of the tools."""
    separate = output.replace('}{"key":', '}\n{"key":').splitlines()  # Kafka's formatters print no newlines
    groups = ((line, json.loads(line)["key"]["data"].get("group", "")) for line in separate)
    return sorted(line for line, group in groups if not group.startswith(OWN_GROUPS))
