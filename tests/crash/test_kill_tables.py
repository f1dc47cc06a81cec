"""The table writer that a broker has started is killed at random moments: tables equal their topics."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.crash.process import BrokerProcess
from tests.interop.eventually import eventually

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic, TopicPartition
from ottla_tables.formats.factory import TableFactory
from ottla_tables.formats.table import Snapshot, Table, TableIdentity
from ottla_tables.log.lookup import Lookup
from ottla_tables.parquet import read_batches

pytest.importorskip("pyiceberg")
FORMATS = ("iceberg", "delta", "parquet")
KILLS = 2
SECONDS = 90.0
Rows = list[tuple[int, bytes]]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path, ottla_tables_enable="true").start()
    try:
        yield process
    finally:
        process.stop()


def writers(broker: BrokerProcess) -> list[int]:
    """Return the processes of the table writer."""
    children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()
    return [int(child) for child in children]


def has_ended(pid: int) -> bool:
    """Return whether a process has ended; its parent may not have noticed."""
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"


class Tables:
    """The tables of the topics."""

    def __init__(self, admin: KafkaAdminClient) -> None:
        self._lookup = Lookup(admin)
        self._factory = TableFactory(self._lookup.default_directory(), {})

    def open(self, name: str) -> Table:
        """Open a table."""
        (topic,) = self._lookup.topics([name])
        return self._factory.open(TableIdentity(name, topic.topic_id), topic.config, pa.schema([]))

    def load(self, name: str) -> Snapshot:
        """Load the newest version."""
        return self.open(name).load()

    def has_record_at(self, name: str, offset: int) -> bool:
        """Return whether a table has the record at an offset."""
        return self.load(name).offsets.get(0, 0) > offset

    def rows(self, name: str) -> Rows:
        """Return offset and value of all rows, sorted."""
        table, columns = self.open(name), ["offset", "value"]
        batches = (batch for file in table.load().files for batch in read_batches(table, file.path, columns))
        return sorted((row["offset"], row["value"]) for batch in batches for row in batch.to_pylist())


def records(servers: str, topic: str) -> Rows:
    """Return offset and value of all committed records."""
    tp, rows = TopicPartition(topic, 0), []
    with KafkaConsumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([tp])
        end = consumer.end_offsets([tp])[tp]
        while consumer.position(tp) < end:
            rows += [(r.offset, r.value) for batch in consumer.poll(100).values() for r in batch]
    return rows


def produce(servers: str, stopping: threading.Event) -> None:
    """Send records and transactions, committed and aborted, to the topics."""
    number, choice = 0, random.Random(7)
    plain: Any = KafkaProducer(bootstrap_servers=servers)
    transactional: Any = KafkaProducer(bootstrap_servers=servers, transactional_id="tables")
    with plain, transactional:
        transactional.init_transactions()
        while not stopping.wait(0.02):
            transactional.begin_transaction()
            for topic in FORMATS:
                for producer in (plain, transactional, plain):
                    producer.send(topic, b"%d" % number)
                    number += 1
            plain.flush()
            (transactional.commit_transaction if choice.random() < 0.5 else transactional.abort_transaction)()


def test_tables_equal_their_topics_after_the_writer_is_killed(broker: BrokerProcess) -> None:
    stopping = threading.Event()
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
        for name in FORMATS:
            configs = {"ottla.table.format": name, "ottla.table.flush.ms": "0", "ottla.table.compact.files": "4"}
            admin.create_topics([NewTopic(name, 1, 1, None, configs)], wait_for_metadata=True)
        producing = threading.Thread(target=produce, args=(broker.bootstrap, stopping))
        producing.start()
        tables, moments = Tables(admin), random.Random(3)
        try:
            for _ in range(KILLS):
                before = tables.load("parquet").offsets.get(0, 0)
                eventually(partial(tables.has_record_at, "parquet", before), SECONDS)
                stopping.wait(moments.random() / 2)
                for pid in writers(broker):
                    os.kill(pid, signal.SIGKILL)
        finally:
            stopping.set()
            producing.join()
        for name in FORMATS:
            expected = records(broker.bootstrap, name)
            eventually(partial(tables.has_record_at, name, expected[-1][0]), SECONDS)
            assert tables.rows(name) == expected
        (writer,) = writers(broker)
        broker.kill()
        eventually(partial(has_ended, writer), SECONDS)
        broker.start()
