"""2,000 partitions on one node: startup, memory, file descriptors, and a throughput independent of their number.

The limits are twice what is promised in docs/benchmarks.md, since other tests may have the second core.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benchmarks.raw import Raw, batch_of
from tests.crash.process import BrokerProcess

from ottla import KafkaAdminClient, NewTopic

pytestmark = pytest.mark.slow

PARTITIONS = 2000
CLEAN_START_SECONDS = 2 * 3.0
RECOVERY_SECONDS = 2 * 10.0
IDLE_PARTITION_BYTES = 2 * 10 * 1024
"""Maximum resident memory of an idle partition."""
OTHER_FILES = 30
"""File descriptors of a broker without partitions: sockets, metadata store, log directory."""
LEAST_SHARE = 1 - 2 * 0.2
BATCHES = 8000
REPEATS = 3


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def cpu_seconds_to_start(broker: BrokerProcess) -> float:
    """Start the broker, and return the CPU time that it has taken, which does not depend on other load."""
    broker.start()
    user, system = Path(f"/proc/{broker.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def rate(broker: BrokerProcess, topic: str, partitions: int) -> float:
    """Return the batches of 16 KiB per second from one client, ten per request, to all partitions in turn."""
    client = Raw(broker.port)
    batch = batch_of(1000, 16 * 1024)
    done = client.produce(topic, partitions, batch, BATCHES // partitions, at_once=10)
    client.close()
    return done.records / done.seconds


def test_two_thousand_partitions_stay_within_the_documented_limits(tmp_path: Path) -> None:

    broker = BrokerProcess(tmp_path / "data")
    with broker:
        before = resident_bytes(broker.pid)
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic("few", 10, 1), NewTopic("many", PARTITIONS, 1)])
        assert resident_bytes(broker.pid) - before < PARTITIONS * IDLE_PARTITION_BYTES
        assert open_files(broker.pid) < OTHER_FILES
        assert broker.stop() == 0
        assert cpu_seconds_to_start(broker) < CLEAN_START_SECONDS
        assert resident_bytes(broker.pid) - before < PARTITIONS * IDLE_PARTITION_BYTES
        assert open_files(broker.pid) < OTHER_FILES

        rate(broker, "many", PARTITIONS)  # files are opened by the first append
        rates = [(rate(broker, "few", 10), rate(broker, "many", PARTITIONS)) for _ in range(REPEATS)]
        share = max(many / few for few, many in rates)
        assert share > LEAST_SHARE, rates

        broker.kill()
        assert cpu_seconds_to_start(broker) < RECOVERY_SECONDS
        assert open_files(broker.pid) < OTHER_FILES
