"""Reading records that are only in the object store, and the latency of another client meanwhile.

    python -m benchmarks tiered [--url s3://bucket/prefix] [--repeats 5]

One broker has a topic on its disk and the same records in a tiered topic, of which only the last segment is left on the
disk. Both are read in turns. The tiered topic fits into the default cache (rsm.config.cache.bytes, 128 MiB): only the
first read has to wait for the store. A second tiered topic is larger than the cache: each read of it comes from the
store.

A producer in its own process sends single records at a fixed rate with acks=all meanwhile. A latency is measured from
the time at which the record was due. The store is a directory, or that of --url, with credentials from the environment.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.raw import Raw, batch_of
from benchmarks.results import Figure, print_pair
from benchmarks.servers import Broker, ottla_command
from benchmarks.stalls import LARGE_BATCH, PERCENTILES, SMALL_BATCH, beside, latencies
from ottla import KafkaAdminClient, OffsetSpec, TopicPartition

SEGMENT_BYTES = 8 << 20
CACHED_BYTES = 96 << 20
UNCACHED_BYTES = 512 << 20
COPY_SECONDS = 120
LOCAL, CACHED, UNCACHED, PROBED = "local", "cached", "uncached", "probed"
TIERED = {"remote.storage.enable": "true", "local.retention.bytes": "1", "segment.bytes": str(SEGMENT_BYTES)}
READ_SECONDS = 2.0
RATE = 500
LATENCY_SECONDS = 6.0


def command(url: str, directory: Path, port: int) -> list[str]:
    """Return the command of a broker whose remote tier is at `url`."""
    options = (
        "remote.log.storage.system.enable=true",
        f"rsm.config.url={url}",
        "remote.log.manager.task.interval.ms=200",
        "remote.log.metadata.topic.num.partitions=1",
        "remote.log.metadata.topic.replication.factor=1",
        "log.retention.check.interval.ms=500",
    )
    return [*ottla_command(directory, port), *(f"--override={option}" for option in options)]


def fill(client: Raw, port: int) -> None:
    """Create the topics, and wait until the tiered ones are at most a tenth on the disk."""
    large, small = batch_of(1024, LARGE_BATCH), batch_of(100, SMALL_BATCH)
    client.create(LOCAL, 1)
    client.create(PROBED, 1)
    client.create(CACHED, 1, TIERED)
    client.create(UNCACHED, 1, TIERED)
    for topic, size in ((LOCAL, CACHED_BYTES), (CACHED, CACHED_BYTES), (UNCACHED, UNCACHED_BYTES)):
        client.produce(topic, 1, large, size // len(large.data))
    client.produce(PROBED, 1, small, 1)
    deadline = time.monotonic() + COPY_SECONDS
    with KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}") as admin:
        for tp in (TopicPartition(CACHED, 0), TopicPartition(UNCACHED, 0)):
            end = client.end_offset(*tp)
            assert end is not None
            while admin.list_offsets({tp: OffsetSpec.earliest_local()})[tp].offset < 0.9 * end:
                assert time.monotonic() < deadline, f"{tp.topic} is not in the store after {COPY_SECONDS} s"
                time.sleep(0.1)


def rate(client: Raw, broker: Broker, topic: str, seconds: float) -> tuple[float, float]:
    """Read a topic repeatedly, and return MB per second and the broker's CPU seconds per GB."""
    cpu = broker.cpu_seconds()
    done = client.consume(topic, 1, seconds)
    return done.bytes / done.seconds / 1e6, (broker.cpu_seconds() - cpu) / done.bytes * 1e9


def measure_rates(broker: Broker, client: Raw, repeats: int) -> None:
    """Print the throughput of reading each tiered topic beside the one on the disk."""
    first = rate(client, broker, CACHED, 0.001)
    print(f"first read of {CACHED_BYTES >> 20} MiB in the store: {first[0]:.0f} MB/s, {first[1]:.2f} s of CPU per GB")
    for topic in (CACHED, UNCACHED):
        pairs = [
            (rate(client, broker, topic, READ_SECONDS), rate(client, broker, LOCAL, READ_SECONDS))
            for _ in range(repeats)
        ]
        for i, (unit, more) in enumerate((("MB/s", True), ("s/GB", False))):
            values = {topic: [remote[i] for remote, _ in pairs], LOCAL: [local[i] for _, local in pairs]}
            print_pair(Figure(f"read in the store, {topic}" if more else "  CPU", unit, more, values), topic, LOCAL)


def measure_latencies(broker: Broker, repeats: int) -> None:
    """Print the latencies of the producer at rest and beside a consumer of each topic."""
    probe = partial(latencies, broker.port, PROBED, batch_of(100, SMALL_BATCH), RATE, LATENCY_SECONDS)
    measured: dict[str, list[list[float]]] = {topic: [] for topic in ("rest", LOCAL, CACHED, UNCACHED)}
    for _ in range(repeats):
        measured["rest"].append(probe())
        for topic in (LOCAL, CACHED, UNCACHED):
            with beside(broker.port, lambda client, topic=topic: client.consume(topic, 1, 0.001)):  # type: ignore[misc]
                measured[topic].append(probe())
    for topic in (LOCAL, CACHED, UNCACHED):
        for i, (percentile, _) in enumerate(PERCENTILES):
            values = {name: [run[i] for run in measured[name]] for name in (topic, "rest")}
            figure = Figure(f"{percentile} beside a consumer, {topic}, and at rest", "ms", False, values)
            print_pair(figure, topic, "rest")


def main(argv: Sequence[str]) -> int:
    """Measure throughput and latencies, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="rsm.config.url of the broker; by default a directory")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="bench-store-") as folder:
        broker = Broker("ottla", partial(command, args.url or Path(folder).as_uri()))
        broker.start()
        try:
            client = Raw(broker.port)
            fill(client, broker.port)
            measure_rates(broker, client, args.repeats)
            measure_latencies(broker, args.repeats)
        finally:
            broker.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
