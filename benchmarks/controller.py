"""Time that a new controller takes to build and encode the requests for all brokers of a large cluster.

    python -m benchmarks controller [--brokers 200] [--partitions 20000,200000]

Three replicas of each partition. Seconds: UpdateMetadata for the first broker, for all of them, and LeaderAndIsr with
the replicas of each. Encoding UpdateMetadata again for every broker would take the first figure times the brokers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from types import MappingProxyType
from uuid import uuid4

from ottla.cluster.controller.requests import BrokerRequests
from ottla.cluster.image.cluster_image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from ottla.config.broker.listener_config import Endpoint
from ottla.protocol.message import encode

PARTITIONS_PER_TOPIC = 100
UPDATE_METADATA_VERSION, LEADER_AND_ISR_VERSION = 8, 7


def image_of(brokers: int, partitions: int) -> ClusterImage:
    """Return a cluster with three replicas of each partition, spread evenly."""
    endpoints = {n: BrokerImage(n, (Endpoint("PLAINTEXT", f"broker-{n}", 9092),), "rack") for n in range(brokers)}
    topics = {}
    for number in range(partitions // PARTITIONS_PER_TOPIC):
        replicas = [tuple((number + i + r) % brokers for r in range(3)) for i in range(PARTITIONS_PER_TOPIC)]
        name = f"topic-{number}"
        topics[name] = TopicImage(name, uuid4(), tuple(PartitionImage(r[0], 0, r, r) for r in replicas))
    image = ClusterImage("cluster", controller_id=0, controller_epoch=1, brokers=MappingProxyType(endpoints))
    return image.with_topics(topics)


def measure(image: ClusterImage) -> tuple[float, float, float, int]:
    """Return seconds of the first UpdateMetadata, of all, and of all LeaderAndIsr requests, and a broker's bytes."""
    requests, brokers = BrokerRequests(), list(image.brokers.values())
    began = time.perf_counter()
    first = requests.update_metadata(None, image, brokers[0])
    assert first is not None
    nbytes = len(encode(first, UPDATE_METADATA_VERSION))
    first_seconds = time.perf_counter() - began
    for broker in brokers[1:]:
        request = requests.update_metadata(None, image, broker)
        assert request is not None
        encode(request, UPDATE_METADATA_VERSION)
    all_seconds = time.perf_counter() - began
    began = time.perf_counter()
    for broker in brokers:
        states = requests.leader_and_isr(None, image, broker)
        assert states is not None
        encode(states, LEADER_AND_ISR_VERSION)
    return first_seconds, all_seconds, time.perf_counter() - began, nbytes


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each number of partitions."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks controller", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--brokers", type=int, default=200)
    parser.add_argument("--partitions", default="20000,200000", help="numbers of partitions, separated by commas")
    args = parser.parse_args(argv)
    print(f"{'partitions':>10} {'MB each':>8} {'UpdateMetadata: first':>22} {'all':>7} {'LeaderAndIsr: all':>18}")
    for partitions in map(int, args.partitions.split(",")):
        first, everything, states, nbytes = measure(image_of(args.brokers, partitions))
        row = f"{partitions:>10} {nbytes / 1e6:>8.1f} {first:>20.2f} s {everything:>5.2f} s {states:>16.2f} s"
        print(row, flush=True)
    return 0
