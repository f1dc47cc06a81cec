"""kill -9 of the delivery examples: their results, compared with the log, match their guarantees."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from examples.delivery.visit_store import VisitStore
from scripts import databases
from tests.crash.process import BrokerProcess
from tests.effort import repeats
from tests.interop.steady import new_topic, sending
from tests.whole_topic import whole_topic

from ottla import KafkaConsumer, TopicPartition

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples" / "delivery"
PARTITIONS = 4
PROGRAMS = 2
KILLS = int(os.environ.get("OTTLA_KILLS", repeats(8, 50)))
"""Number of kills of examples with exactly-once delivery."""
FEW_KILLS = KILLS // 4
"""Number of kills of the other examples."""
SECONDS = 60.0


class Programs:
    """Several processes of the same example, which are killed and restarted one after the other."""

    def __init__(self, name: str, arguments: Callable[[int], list[str]], log: Path) -> None:
        self._command: Callable[[int], list[str]] = lambda i: [sys.executable, str(EXAMPLES / name), *arguments(i)]
        self._log = log
        self._running = [self._start(i) for i in range(PROGRAMS)]

    def _start(self, i: int) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(self._command(i), stderr=log)

    def kill(self, i: int) -> None:
        """Kill a process with SIGKILL, and start another one in its place."""
        assert self._running[i].poll() is None, f"the program has exited: {self._log.read_text()}"
        self._running[i].kill()
        self._running[i].wait()
        self._running[i] = self._start(i)

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.terminate()
        for process in self._running:
            # A process that was just started dies of the signal, before it has installed its handler.
            assert process.wait(SECONDS) in (0, -signal.SIGTERM), self._log.read_text()


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    quick = {"group.min.session.timeout.ms": 100, "group.initial.rebalance.delay.ms": 0}
    with BrokerProcess(tmp_path_factory.mktemp("broker"), **quick) as broker:
        yield broker.bootstrap


@pytest.fixture
def topic(bootstrap: str) -> str:
    return new_topic(bootstrap, PARTITIONS, "visits")


def visit(i: int) -> bytes:
    return b"%d,www.example.com,192.168.2.%d" % (time.time_ns() // 1_000_000, i % 251)


@contextlib.contextmanager
def killed_at_random(
    bootstrap: str,
    topic: str,
    programs: Programs,
    progress: Callable[[], int],
    value_of: Callable[[int], bytes],
    kills: int = KILLS,
) -> Iterator[None]:
    """Send records and kill the programs. The block starts when all records are processed; the programs still run."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    dice = random.Random(seed)
    with programs:
        with sending(bootstrap, topic, PARTITIONS, 0.001, value_of) as sent:
            for _ in range(kills):
                at_least = progress() + 1
                until(lambda least=at_least: progress() >= least, "nothing is processed")  # type: ignore[misc]
                threading.Event().wait(dice.uniform(0, 0.3))
                programs.kill(dice.randrange(PROGRAMS))
        until(lambda: progress() >= len(sent), f"not all of {len(sent)} records were processed")
        yield


def until(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.05)


def log_of(bootstrap: str, topic: str, isolation: str = "read_uncommitted") -> dict[TopicPartition, list[bytes]]:
    """Return all values of a topic by partition."""
    actual: dict[TopicPartition, list[bytes]] = {TopicPartition(topic, p): [] for p in range(PARTITIONS)}
    for record in whole_topic(bootstrap, topic, PARTITIONS, isolation_level=isolation, max_poll_records=10_000):
        actual[TopicPartition(topic, record.partition)].append(record.value)
    return actual


def options(bootstrap: str, topic: str) -> list[str]:
    return ["--bootstrap-server", bootstrap, "--topic", topic, "--group", topic, "--session-timeout-ms", "400"]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mysql"])
def test_database_counts_every_visit_once(bootstrap: str, topic: str, kind: str, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        url = f"sqlite:{tmp_path / 'visits.db'}"
        if kind != "sqlite":
            pytest.importorskip({"postgresql": "psycopg", "mysql": "pymysql"}[kind])
            reason = databases.missing(kind)
            if reason is not None:
                pytest.skip(reason)
            url = stack.enter_context(databases.running(kind))
        store = stack.enter_context(contextlib.closing(VisitStore(url)))

        def counted() -> int:
            return sum(store.visits().values())

        arguments = [*options(bootstrap, topic), "--database", url]
        programs = Programs("exactly_once_database.py", lambda _: arguments, tmp_path / "stderr")
        stack.enter_context(killed_at_random(bootstrap, topic, programs, counted, visit))
        log = log_of(bootstrap, topic)
        expected = Counter(value.decode().rpartition(",")[2] for values in log.values() for value in values)
        assert dict(store.visits()) == dict(expected)
        assert {tp: store.next_offset(tp) for tp in log} == {tp: len(values) for tp, values in log.items()}


def test_transactions_copy_every_record_once_and_in_order(bootstrap: str, topic: str, tmp_path: Path) -> None:
    copy = new_topic(bootstrap, PARTITIONS, "copy")

    def arguments(i: int) -> list[str]:
        return [*options(bootstrap, topic), "--to", copy, "--transactional-id", f"{topic}-{i}"]

    reader = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest")
    reader.assign([TopicPartition(copy, p) for p in range(PARTITIONS)])
    read: list[bytes] = []

    def copied() -> int:
        read.extend(row.value for rows in reader.poll(timeout_ms=0).values() for row in rows)
        return len(read)

    def keyed(i: int) -> bytes:
        return b"visit %d of %d" % (i, i % PARTITIONS)

    programs = Programs("exactly_once_kafka.py", arguments, tmp_path / "stderr")
    with reader, killed_at_random(bootstrap, topic, programs, copied, keyed):
        values = log_of(bootstrap, topic).values()
        copies = [v for batch in log_of(bootstrap, copy, "read_committed").values() for v in batch]
        assert sorted(copies) == sorted(v.upper() for records_of_partition in values for v in records_of_partition)


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []


@pytest.mark.parametrize("commit", ["manual", "auto"])
def test_at_least_once_consumer_loses_no_record(bootstrap: str, topic: str, commit: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = [*options(bootstrap, topic), "--out", str(out), "--commit", commit]
    programs = Programs("at_least_once.py", lambda _: arguments, tmp_path / "stderr")
    with killed_at_random(bootstrap, topic, programs, lambda: len(set(lines(out))), numbered, FEW_KILLS):
        sent = [value for values in log_of(bootstrap, topic).values() for value in values]
        assert set(lines(out)) == set(sent)


def numbered(i: int) -> bytes:
    return b"%d" % i


def test_at_most_once_consumer_duplicates_no_record(bootstrap: str, topic: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = [*options(bootstrap, topic), "--out", str(out)]
    programs = Programs("at_most_once.py", lambda _: arguments, tmp_path / "stderr")
    reader = KafkaConsumer(bootstrap_servers=bootstrap, group_id=topic, enable_auto_commit=False)
    partitions = [TopicPartition(topic, p) for p in range(PARTITIONS)]

    def committed() -> int:
        """Return the number of records with committed offsets, whether processed or lost."""
        return sum(int(reader.committed(tp) or 0) for tp in partitions)

    with reader, killed_at_random(bootstrap, topic, programs, committed, numbered, FEW_KILLS):
        pass
    sent = [value for values in log_of(bootstrap, topic).values() for value in values]
    written = lines(out)
    assert len(written) == len(set(written)), "a record was processed twice"
    assert set(written) <= set(sent)
