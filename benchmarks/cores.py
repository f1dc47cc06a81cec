"""Throughput of a node by its number of brokers, under loads that keep the brokers busy rather than the clients.

    python -m benchmarks cores [--brokers 1,2,4] [--kafka] [--loads produce,tls] [--seconds 10] [--repeats 3]

As many client processes for each number of brokers (two per broker of the largest) send requests, each to partitions
of one leader:

- produce: batches that are not compressed, with acks=all
- tls: the same over TLS (the certificate needs openssl)
- recompress: the same into a topic with `compression.type=zstd`
- validate: zstd batches, whose records the broker checks
- down-convert: fetches of a client of Kafka 0.10, for which the broker converts each batch to messages of format 1

For each number of brokers: MB/s of uncompressed batches, the ratio to one broker, and the CPU seconds of the brokers
and of the clients per GB. Medians, all numbers of brokers in turns. Clients and brokers share the machine's cores: a
number of brokers above half of the cores measures the machine, not the brokers. `--kafka` measures Apache Kafka, one
process for all cores, beside them, except for down-convert, because Kafka 4 serves no clients older than 2.1.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from scripts import apache_kafka

from benchmarks.broker import BATCH_BYTES
from benchmarks.raw import FETCH_BYTES, IN_FLIGHT, PRODUCE_VERSION, Raw, batch_of, produce_body
from benchmarks.servers import START_SECONDS, TICKS, wait_for_answer
from ottla import KafkaAdminClient, NewTopic
from ottla.client.core.metadata import PartitionInfo
from ottla.errors import UnknownTopicOrPartitionError
from ottla.net.ports import free_port
from ottla.protocol.message import decode, encode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.records import any_magic, compression
from ottla.records.batch import MAGIC_POSITION

RECORD_BYTES = 100
CLIENTS_PER_BROKER = 2
PARTITIONS_PER_CLIENT = 2
WARM_UP = 0.5
"""Time of the warm-up, as a share of the measured time. Apache Kafka's Java compiler needs it."""
DOWN_CONVERT = "down-convert"
LOADS = ("produce", "tls", "recompress", "validate", DOWN_CONVERT)
OLD_FETCH_VERSION = 3
"""The version of Fetch of Kafka 0.10.1, whose clients read format 1."""
FETCHED_BATCHES = 4
"""Number of batches that a request of the load down-convert reads."""
CERTIFICATE = "certificate.pem"


class Figure(NamedTuple):
    """One measurement: bytes of records per second, and the CPU time of the brokers and of the clients."""

    mb_per_second: float
    cpu_seconds_per_gb: float
    clients_cpu_seconds_per_gb: float


class Node:
    """A node of Ottla, or Apache Kafka (`brokers` is 0)."""

    def __init__(self, brokers: int, *, tls: bool) -> None:
        self.brokers = max(brokers, 1)
        self.directory = Path(tempfile.mkdtemp(prefix="bench-cores-"))
        ports = self.brokers + 1  # Kafka's second one is the controller's
        self.port = free_port(in_a_row=2 * ports)
        self.tls_distance = ports
        """Difference between a broker's ports for plain text and for TLS."""
        listeners = {"PLAINTEXT": self.port}
        configs = {}
        if tls:
            make_certificate(self.directory)
            listeners["SSL"] = self.port + ports
            configs = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.directory / CERTIFICATE)}
        listed = ",".join(f"{protocol}://127.0.0.1:{port}" for protocol, port in listeners.items())
        if not brokers:
            configs |= {"listeners": f"{listed},CONTROLLER://127.0.0.1:{self.port + 1}", "advertised.listeners": listed}
            configs |= {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT"}
            command = apache_kafka.prepare_node(self.directory, self.port, configs=configs)
        else:
            configs |= {"listeners": listed, "log.dirs": str(self.directory / "log")}
            overrides = [f"--override={name}={value}" for name, value in configs.items()]
            command = [sys.executable, "-m", "ottla", "broker", "--brokers", str(brokers), *overrides]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        for number in range(self.brokers):
            wait_for_answer(self.port + number)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of the process and its children."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return sum(map(_cpu_seconds, (str(pid), *children)))

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def make_certificate(directory: Path) -> None:
    """Create a key and a self-signed certificate in one file."""
    key, certificate = directory / "key.pem", directory / CERTIFICATE
    made = ["-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(certificate), "-days", "1"]
    command = ["openssl", "req", "-x509", "-subj", "/CN=127.0.0.1", *made]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    certificate.write_text(key.read_text() + certificate.read_text())


def _cpu_seconds(pid: str) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def described(admin: KafkaAdminClient, topic: str) -> Sequence[PartitionInfo]:
    """Wait for the metadata of a new topic, and return its partitions."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            partitions = admin.describe_topics([topic])[topic].partitions
        except UnknownTopicOrPartitionError:
            partitions = ()
        if partitions and all(partition.leader >= 0 for partition in partitions):
            return partitions
        assert time.monotonic() < deadline, "the topic did not come up"
        time.sleep(0.05)


def measure(node: Node, load: str, clients: int, seconds: float) -> Figure:
    """Produce from some processes, which share the brokers evenly, for some seconds."""
    topic = f"{load}-{time.monotonic_ns()}"
    configs = {"compression.type": "zstd"} if load == "recompress" else {}
    with KafkaAdminClient(bootstrap_servers=node.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, clients * PARTITIONS_PER_CLIENT, 1, topic_configs=configs)])
        partitions = described(admin, topic)
        ports = {broker.id: broker.port for broker in admin.describe_cluster().nodes}
    led: dict[int, list[int]] = {}
    for partition in partitions:
        led.setdefault(ports[partition.leader], []).append(partition.partition)
    distance = node.tls_distance if load == "tls" else 0
    shares = [
        (port + distance, led[port][index :: clients // len(led)])
        for port in led
        for index in range(clients // len(led))
    ]
    context = multiprocessing.get_context("spawn")
    cpu = node.cpu_seconds()
    with context.Pool(len(shares)) as pool:
        jobs = [pool.apply_async(run_client, (port, topic, own, load, seconds)) for port, own in shares]
        results = [job.get(seconds + START_SECONDS) for job in jobs]
    sent = sum(result.all_bytes for result in results)
    rate = sum(result.bytes / result.seconds for result in results)
    clients_cpu = sum(result.cpu_seconds for result in results) / (sum(result.bytes for result in results) / 1e9)
    return Figure(rate / 1e6, (node.cpu_seconds() - cpu) / (sent / 1e9), clients_cpu)


class Sent(NamedTuple):
    """The uncompressed bytes of a client's requests within the measured seconds, and in total with the warm-up."""

    bytes: int
    seconds: float
    cpu_seconds: float
    all_bytes: int


class Requests(NamedTuple):
    """The requests that a client repeats, one for each of its partitions."""

    api_key: int
    version: int
    bodies: Sequence[bytes | bytearray]
    check: Callable[[memoryview], None]
    """Asserts that a response has no error."""
    plain_bytes: int
    """The uncompressed bytes of one request's batches."""


def run_client(port: int, topic: str, partitions: Sequence[int], load: str, seconds: float) -> Sent:
    """Send requests to partitions of one broker for some seconds, after a warm-up."""
    tls = None
    if load == "tls":
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    client = Raw(port, tls)
    requests = (_fetches if load == DOWN_CONVERT else _produces)(client, topic, partitions, load)
    warm_up = _repeat(client, requests, WARM_UP * seconds)
    began, cpu = time.perf_counter(), time.process_time()
    sent = _repeat(client, requests, seconds)
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    client.close()
    return Sent(sent, took, cpu, warm_up + sent)


def _produces(client: Raw, topic: str, partitions: Sequence[int], load: str) -> Requests:
    batch = batch_of(RECORD_BYTES, BATCH_BYTES, compression.ZSTD if load == "validate" else compression.NONE)
    bodies = [produce_body(topic, [partition], batch.data) for partition in partitions]
    return Requests(0, PRODUCE_VERSION, bodies, client.check, batch.plain_bytes)


def _fetches(client: Raw, topic: str, partitions: Sequence[int], load: str) -> Requests:
    """Fill the partitions, and return fetches of all that is in them."""
    produces = _produces(client, topic, partitions, load)
    for body in [*produces.bodies] * FETCHED_BATCHES:
        client.send(0, PRODUCE_VERSION, body)
        client.check(client.receive())
    bodies = [
        encode(
            FetchRequest(
                replica_id=-1,
                max_bytes=FETCH_BYTES,
                topics=[
                    FetchTopic(topic=topic, partitions=[FetchPartition(partition=p, partition_max_bytes=FETCH_BYTES)])
                ],
            ),
            OLD_FETCH_VERSION,
        )
        for p in partitions
    ]
    client.send(1, OLD_FETCH_VERSION, bodies[0])
    first = bytes(client.receive())
    data = decode(FetchResponse, first, OLD_FETCH_VERSION, 4).responses[0].partitions[0]
    assert data.records is not None
    last_offset = [header.base_offset for header, _, _ in any_magic.split(data.records)][-1]
    expected = FETCHED_BATCHES * batch_of(RECORD_BYTES, BATCH_BYTES).records
    assert (data.records[MAGIC_POSITION], last_offset + 1) == (1, expected), "all messages, in format 1"

    def check(frame: memoryview) -> None:
        assert len(frame) == len(first)

    return Requests(1, OLD_FETCH_VERSION, bodies, check, FETCHED_BATCHES * produces.plain_bytes)


def _repeat(client: Raw, requests: Requests, seconds: float) -> int:
    """Send requests for some seconds, and return the uncompressed bytes of their batches."""
    ends, waiting, sent = time.perf_counter() + seconds, 0, 0
    while time.perf_counter() < ends:
        for body in requests.bodies:
            if waiting == IN_FLIGHT:
                requests.check(client.receive())
                waiting -= 1
            client.send(requests.api_key, requests.version, body)
            waiting += 1
            sent += requests.plain_bytes
    for _ in range(waiting):
        requests.check(client.receive())
    return sent


def main(argv: Sequence[str] | None = None) -> int:
    """Measure all numbers of brokers in turns, and print the medians."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks cores", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--brokers", default="1,2", help="numbers of brokers, separated by commas")
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka, too (needs Java and Maven)")
    parser.add_argument("--loads", default=",".join(LOADS), help="loads, separated by commas")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="where the figures go")
    args = parser.parse_args(argv)
    counts = [int(count) for count in args.brokers.split(",")] + ([0] if args.kafka else [])
    loads = args.loads.split(",")
    if unknown := set(loads) - set(LOADS):
        parser.error(f"unknown loads: {', '.join(sorted(unknown))}")
    figures: dict[tuple[str, int], list[Figure]] = {}
    for repeat in range(args.repeats):
        for count in counts:
            node = Node(count, tls="tls" in loads)
            try:
                for load in loads:
                    if load == DOWN_CONVERT and not count:
                        continue
                    print(f"{repeat + 1}: {count or 'Kafka'}, {load}", file=sys.stderr)
                    figures.setdefault((load, count), []).append(
                        measure(node, load, max(counts) * CLIENTS_PER_BROKER, args.seconds)
                    )
            finally:
                node.close()
    print(f"{os.cpu_count()} cores, medians of {args.repeats}")
    for load in loads:
        first = statistics.median(f.mb_per_second for f in figures[load, counts[0]])
        for count in (count for count in counts if (load, count) in figures):
            name = f"brokers: {count}" if count else "Apache Kafka"
            rate = statistics.median(f.mb_per_second for f in figures[load, count])
            cpu = statistics.median(f.cpu_seconds_per_gb for f in figures[load, count])
            clients_cpu = statistics.median(f.clients_cpu_seconds_per_gb for f in figures[load, count])
            print(
                f"{load:13}{name:14}{rate:10.1f} MB/s  x {rate / first:.2f}{cpu:10.2f} CPU s/GB"
                f"  clients{clients_cpu:6.2f} CPU s/GB"
            )
    if args.json:
        args.json.write_text(json.dumps({f"{load}-{count}": runs for (load, count), runs in figures.items()}))
    return 0
