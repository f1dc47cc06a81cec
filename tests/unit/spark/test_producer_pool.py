"""The pool of producers that stay open between tasks of the sink."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.whole_topic import whole_topic

from ottla import Broker, KafkaProducer
from ottla.errors import IllegalStateError, ProducerFencedError
from ottla.net.ports import free_port
from ottla.spark.options.sink_options import SinkOptions, sink_options
from ottla.spark.sink import producer_pool
from ottla.spark.sink.producer_pool import MOST_IDLE, ProducerPool, TaskClients
from ottla.spark.sink.topic_sink import TopicSink
from ottla.spark.sink.writer import Task


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker({"num.partitions": 3}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProducerPool]:
    """Replace the pool of this process."""
    pool = ProducerPool()
    monkeypatch.setattr(producer_pool, "POOL", pool)
    yield pool
    pool.close()


def options_for(bootstrap: str, topic: str) -> SinkOptions:
    return sink_options({"kafka.bootstrap.servers": bootstrap, "topic": topic})


def clients_of(pool: ProducerPool, options: SinkOptions) -> Any:
    return pool.clients(options.kafka, options.connection)


def rows(*values: bytes) -> Iterator[Any]:
    return iter([pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})])


def committed(bootstrap: str, topic: str) -> list[bytes]:
    records = whole_topic(bootstrap, topic, 3, isolation_level="read_committed")
    return sorted(record.value or b"" for record in records)


def is_closed(clients: TaskClients) -> bool:
    try:
        clients.producer.partitions_for("none")
    except IllegalStateError as error:
        return "is closed" in str(error)
    return False


def test_consecutive_tasks_share_a_producer(
    bootstrap: str, pool: ProducerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    create = KafkaProducer.__init__

    def counted(self: KafkaProducer, *args: Any, **options: Any) -> None:
        started.append(self)
        create(self, *args, **options)

    monkeypatch.setattr(KafkaProducer, "__init__", counted)
    for number, query in enumerate(("a", "a", "b")):
        TopicSink(options_for(bootstrap, "shared")).write(Task(query, number, number), rows(b"%d" % number))
    assert len(started) == 1
    assert committed(bootstrap, "shared") == [b"0", b"1", b"2"]


def test_different_options_have_different_producers(bootstrap: str, pool: ProducerPool) -> None:
    with clients_of(pool, options_for(bootstrap, "t")) as first:
        pass
    other = sink_options({"kafka.bootstrap.servers": bootstrap, "topic": "t", "kafka.linger.ms": "1"})
    with clients_of(pool, other) as second:
        assert second is not first


def test_concurrent_tasks_have_separate_producers(bootstrap: str, pool: ProducerPool) -> None:
    options = options_for(bootstrap, "t")
    with clients_of(pool, options) as first, clients_of(pool, options) as second:
        assert first is not second


def test_producer_of_a_failed_task_is_closed_and_its_rows_are_aborted(bootstrap: str, pool: ProducerPool) -> None:
    options = options_for(bootstrap, "failed")
    TopicSink(options).write(Task("q", 0, 0), rows(b"before"))

    def failing_rows() -> Iterator[Any]:
        yield from rows(b"half")
        raise ZeroDivisionError

    with clients_of(pool, options) as first:
        pass
    with pytest.raises(ZeroDivisionError):
        TopicSink(options).write(Task("q", 1, 0), failing_rows())
    assert is_closed(first)
    assert not TopicSink(options).write(Task("q", 1, 0), rows(b"whole")).known
    assert committed(bootstrap, "failed") == [b"before", b"whole"]


def test_idle_producer_fences_a_later_attempt_of_another_worker(bootstrap: str, pool: ProducerPool) -> None:
    """The transactional id is used here, then by an attempt elsewhere that still runs, then here again."""
    options = options_for(bootstrap, "moved")
    sink, task = TopicSink(options), Task("moved", 0, 0)
    sink.write(task, rows(b"first"))
    with KafkaProducer(bootstrap_servers=bootstrap, transactional_id=sink.name(task)) as elsewhere:
        elsewhere.init_transactions()
        elsewhere.begin_transaction()
        elsewhere.send("moved", b"elsewhere").get(10)
        assert not sink.write(task._replace(batch_id=1), rows(b"second")).known
        with pytest.raises(ProducerFencedError):
            elsewhere.commit_transaction()
    assert committed(bootstrap, "moved") == [b"first", b"second"]


def test_micro_batch_written_by_another_worker_is_recognised(bootstrap: str, pool: ProducerPool) -> None:
    options = options_for(bootstrap, "elsewhere")
    task = Task("elsewhere", 0, 0)
    TopicSink(options).write(task, rows(b"0"))
    with clients_of(pool, options):  # so that the next task has a different producer, as in another worker
        TopicSink(options).write(task._replace(batch_id=1), rows(b"1"))
    assert TopicSink(options).write(task._replace(batch_id=1), rows(b"1")).known
    assert committed(bootstrap, "elsewhere") == [b"0", b"1"]


def test_idle_producers_are_closed_after_the_idle_time(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = threading.Event()
    pool = ProducerPool(idle_seconds=0.05)
    monkeypatch.setattr(KafkaProducer, "close", _notifying(KafkaProducer.close, closed))
    with clients_of(pool, options_for(bootstrap, "t")) as clients:
        assert not closed.wait(0.1)
    assert closed.wait(10)
    assert is_closed(clients)


def _notifying(close: Any, closed: threading.Event) -> Any:
    def wrapper(self: KafkaProducer) -> None:
        close(self)
        closed.set()

    return wrapper


def test_excess_and_old_producers_are_closed(bootstrap: str, pool: ProducerPool) -> None:
    all_clients = []
    for number in range(MOST_IDLE + 1):
        options = sink_options({"kafka.bootstrap.servers": bootstrap, "topic": "t", "kafka.linger.ms": str(number)})
        with clients_of(pool, options) as clients:
            all_clients.append(clients)
    assert [is_closed(clients) for clients in all_clients] == [True, *[False] * MOST_IDLE]
    old = ProducerPool(life_seconds=0.0)
    with clients_of(old, options) as clients:
        pass
    assert is_closed(clients)


def test_close_of_the_pool_closes_its_producers(bootstrap: str) -> None:
    pool = ProducerPool()
    with clients_of(pool, options_for(bootstrap, "t")) as clients:
        pass
    pool.close()
    assert is_closed(clients)


def test_forked_process_has_separate_producers(bootstrap: str) -> None:
    """Spark's daemon forks its workers. The parent's producer remains usable."""
    options = options_for(bootstrap, "forked")
    sink = TopicSink(options)
    sink.write(Task("parent", 0, 0), rows(b"parent"))
    child = os.fork()
    if not child:
        failure = 1
        try:
            sink.write(Task("child", 0, 0), rows(b"child"))
            failure = 0
        finally:
            os._exit(failure)
    assert os.waitpid(child, 0)[1] == 0
    sink.write(Task("parent", 1, 0), rows(b"parent"))
    assert committed(bootstrap, "forked") == [b"child", b"parent", b"parent"]


def test_producer_continues_after_a_broker_restart(pool: ProducerPool, tmp_path: Path) -> None:
    port = free_port()
    configs = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", "log.dirs": str(tmp_path), "num.partitions": 3}
    options = options_for(f"127.0.0.1:{port}", "restarted")
    for number in range(2):
        with Broker(configs):
            TopicSink(options).write(Task("q", number, 0), rows(b"%d" % number))
            if number:
                assert committed(f"127.0.0.1:{port}", "restarted") == [b"0", b"1"]
