"""Invalid input of every kind: a clear error, a broker that keeps running, and no loss of acknowledged data."""

from __future__ import annotations

import os
import random
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from tests.crash.process import BrokerProcess

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic, TopicPartition
from ottla.errors import KafkaStorageError, MessageTooLargeError

PRODUCE, FETCH, API_VERSIONS = 0, 1, 18


def start(*overrides: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
    """Run `ottla broker`, which is expected to exit."""
    command = [sys.executable, "-m", "ottla", "broker", *(f"--override={o}" for o in overrides)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def is_responsive(bootstrap: str) -> bool:
    """Return whether the broker still responds to ApiVersions."""
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5) as sock:
        sock.sendall(struct.pack(">ihhih", 10, API_VERSIONS, 0, 7, -1))
        return sock.recv(8)[4:] == struct.pack(">i", 7)


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        for future in [producer.send(topic, value, partition=0) for value in values]:
            future.get(30)


def read(bootstrap: str, topic: str) -> list[bytes]:
    tp = TopicPartition(topic, 0)
    with KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False) as consumer:
        consumer.assign([tp])
        consumer.seek_to_beginning(tp)
        end = consumer.end_offsets([tp])[tp]
        values: list[bytes] = []
        while consumer.position(tp) < end:
            values += [r.value for r in consumer.poll(1000).get(tp, [])]
        return values


@pytest.fixture
def broker(tmp_path: Path) -> BrokerProcess:
    return BrokerProcess(tmp_path / "data", offsets_topic_num_partitions=1)


def one_line(result: subprocess.CompletedProcess[str]) -> str:
    """Return the error, which is the only line after log messages at INFO."""
    assert result.returncode == 1, result
    *logged, error = result.stderr.splitlines()
    assert all(" INFO " in line for line in logged), result.stderr
    return error


def test_port_in_use_is_reported_in_one_line(broker: BrokerProcess, tmp_path: Path) -> None:
    with broker:
        error = one_line(start(f"listeners=PLAINTEXT://{broker.bootstrap}", f"log.dirs={tmp_path / 'other'}"))
        assert str(broker.port) in error
        assert "in use" in error


def test_data_directory_in_use_is_reported_in_one_line(broker: BrokerProcess) -> None:
    with broker:
        error = one_line(start("listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={broker.data}"))
        assert str(broker.data) in error


def test_data_directory_of_another_broker_is_rejected(broker: BrokerProcess) -> None:
    with broker:
        assert broker.stop() == 0
    error = one_line(start("listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={broker.data}", "broker.id=7"))
    assert "belongs to broker 0" in error


def test_file_as_data_directory_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    error = one_line(start("listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={tmp_path / 'file'}"))
    assert "not a directory" in error


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_data_directory_without_write_permission_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    error = one_line(start("listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={tmp_path / 'data'}"))
    assert "not writable" in error


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("num.partitions=none", ("num.partitions", "'none'", "whole number")),
        ("log.retention.hours=0.5", ("log.retention.hours", "0.5")),
        ("listeners=nonsense", ("listeners", "NAME://host:port")),
        ("nonsense", ("nonsense", "key=value")),
    ],
)
def test_invalid_config_is_reported_in_one_line_with_name_value_and_fix(override: str, words: tuple[str, ...]) -> None:
    error = one_line(start(override))
    assert all(word in error for word in words), error


def test_unreachable_zookeeper_is_reported_within_the_timeout(tmp_path: Path) -> None:
    options = ("zookeeper.connect=127.0.0.1:1", "zookeeper.connection.timeout.ms=300", f"log.dirs={tmp_path}")
    error = one_line(start(*options, "listeners=PLAINTEXT://127.0.0.1:0"))
    for word in ("zookeeper.connect", "127.0.0.1:1", "does not answer within 0.3 s", "zookeeper.connection.timeout.ms"):
        assert word in error


def test_unknown_config_is_a_warning(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", num_partition=3)
    with broker:
        assert "did you mean num.partitions?" in broker.output


def test_missing_properties_file_is_reported_in_one_line() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "ottla", "broker", "/nowhere/server.properties"], capture_output=True, text=True
    )
    assert "/nowhere/server.properties" in one_line(result)


def test_malformed_requests_only_close_the_connection_of_their_client(broker: BrokerProcess) -> None:
    r = random.Random(1)
    with broker:
        produce(broker.bootstrap, "kept", [b"before"])
        for i in range(300):
            payload = r.randbytes(r.randint(1, 300))
            if i % 3 == 0:
                payload = struct.pack(">i", len(payload)) + payload
            elif i % 3 == 1:
                # a valid header, followed by random bytes
                body = struct.pack(">hhih", r.randint(0, 75), r.randint(0, 15), i, -1) + payload
                payload = struct.pack(">i", len(body)) + body
            with socket.create_connection(("127.0.0.1", broker.port), timeout=5) as sock:
                sock.sendall(payload)
        for length in (-1, 2**31 - 1, 104_857_601):
            with socket.create_connection(("127.0.0.1", broker.port), timeout=5) as sock:
                sock.sendall(struct.pack(">i", length) + b"x" * 100)
                assert sock.recv(1) == b"", f"the connection with length {length} was not closed"
        assert is_responsive(broker.bootstrap)
        assert read(broker.bootstrap, "kept") == [b"before"]
        rss = int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        assert rss < 150_000_000
        assert broker.stop() == 0


def test_too_large_record_is_rejected_with_message_too_large(broker: BrokerProcess) -> None:
    with broker, KafkaProducer(bootstrap_servers=broker.bootstrap, max_request_size=10_000_000) as producer:
        with pytest.raises(MessageTooLargeError):
            producer.send("t", bytes(2_000_000)).get(30)
        producer.send("t", b"small").get(30)


def test_batch_with_wrong_checksum_is_rejected_and_the_log_stays_usable(broker: BrokerProcess) -> None:
    from ottla.protocol.message import decode, encode
    from ottla.protocol.messages.produce import (
        PartitionProduceData,
        ProduceRequest,
        ProduceResponse,
        TopicProduceData,
    )
    from ottla.records.builder import BatchBuilder

    with broker:
        produce(broker.bootstrap, "t", [b"one"])
        builder = BatchBuilder(bytearray(1000))
        builder.append(1_700_000_000_000, None, b"damaged on its way")
        batch = bytearray(builder.close())
        batch[-3] ^= 1
        request = ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])],
        )
        body = struct.pack(">hhih", PRODUCE, 7, 1, -1) + encode(request, 7)
        with socket.create_connection(("127.0.0.1", broker.port), timeout=5) as sock:
            sock.sendall(struct.pack(">i", len(body)) + body)
            size = struct.unpack(">i", sock.recv(4))[0]
            response = decode(ProduceResponse, sock.recv(size), 7, 4)
        assert response.responses[0].partition_responses[0].error_code == 2
        produce(broker.bootstrap, "t", [b"two"])
        assert read(broker.bootstrap, "t") == [b"one", b"two"]


def test_corrupt_segment_fails_only_reads_of_its_partition(broker: BrokerProcess) -> None:
    with broker:
        produce(broker.bootstrap, "bad", [b"x" * 100] * 10)
        produce(broker.bootstrap, "good", [b"fine"])
        broker.kill()
    segment = next((broker.data / "bad-0").glob("*.log"))
    content = bytearray(segment.read_bytes())
    content[20:40] = bytes(20)
    segment.write_bytes(content)
    with broker:
        assert is_responsive(broker.bootstrap)
        assert read(broker.bootstrap, "good") == [b"fine"]
        produce(broker.bootstrap, "bad", [b"goes on"])
        assert read(broker.bootstrap, "bad")[-1] == b"goes on"


def test_full_disk_is_a_storage_error_and_acknowledged_records_are_preserved(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", max_file_bytes=2_000_000, offsets_topic_num_partitions=1)
    with broker:
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic("t", 1, 1, topic_configs={"segment.index.bytes": "4096"})])
        remaining: list[bytes] = []
        with KafkaProducer(bootstrap_servers=broker.bootstrap, retries=0, enable_idempotence=False) as producer:
            with pytest.raises(KafkaStorageError):
                for i in range(40):
                    value = b"%d " % i + os.urandom(100_000)
                    producer.send("t", value, partition=0).get(30)
                    remaining.append(value)
        assert len(remaining) >= 10
        assert is_responsive(broker.bootstrap)
        assert read(broker.bootstrap, "t") == remaining
        produce(broker.bootstrap, "t", [b"there is room for a small one"])
        assert broker.stop() == 0
    with BrokerProcess(tmp_path / "data") as again:
        assert read(again.bootstrap, "t") == [*remaining, b"there is room for a small one"]
