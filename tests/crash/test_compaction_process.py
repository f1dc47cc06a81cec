"""kill -9 of a broker whose compaction runs in another process: the process ends, and no key loses its last value."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.crash.process import BrokerProcess
from tests.whole_topic import whole_topic

from ottla import KafkaAdminClient, KafkaProducer, NewTopic

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="child processes are listed by Linux only"),
]

TOPIC = "keyed"
KEYS = 100
ROUNDS = 250
VALUE_BYTES = 1000


def log_size(log: Path) -> int:
    """Return the size in bytes of the segments that the broker does not delete meanwhile."""
    size = 0
    for path in log.glob("*.log"):
        with contextlib.suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met"
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_killed_broker_leaves_no_compaction_process_and_loses_no_last_value(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", log_cleaner_backoff_ms=100)
    broker.options["log.cleaner.enable"] = "false"
    with broker:
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
            configs = {"cleanup.policy": "compact", "segment.bytes": str(4 << 20)}
            admin.create_topics([NewTopic(TOPIC, 1, 1, topic_configs=configs)])
        with KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all") as producer:
            for i in range(ROUNDS):
                for key in range(KEYS):
                    producer.send(TOPIC, b"%d " % i + bytes(VALUE_BYTES), key=b"%d" % key)
        assert broker.stop() == 0

    del broker.options["log.cleaner.enable"]
    broker.options["log.cleaner.io.max.bytes.per.second"] = 12_000_000
    broker.start()
    log = tmp_path / "data" / f"{TOPIC}-0"
    wait_until(lambda: bool(children(broker.pid)) and bool(list(log.glob("*.log.cleaned"))))
    (child,) = children(broker.pid)
    broker.kill()
    wait_until(lambda: not is_running(child), seconds=10)

    del broker.options["log.cleaner.io.max.bytes.per.second"]
    size = log_size(log)
    with broker:
        wait_until(lambda: log_size(log) < size / 2)
        wait_until(lambda: not children(broker.pid))
        records = whole_topic(broker.bootstrap, TOPIC, 1)
        assert broker.stop() == 0
    latest = {record.key: record.value for record in records}
    assert latest == {b"%d" % key: b"%d " % (ROUNDS - 1) + bytes(VALUE_BYTES) for key in range(KEYS)}
    assert not list(log.glob("*.cleaned"))
