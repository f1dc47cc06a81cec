"""`ottla capture`: tables of PostgreSQL equal the Iceberg tables of their topics, even if processes are killed."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("psycopg")
pytest.importorskip("pyiceberg")

import psycopg
from scripts import databases
from tests.how_to.pages import run_page
from tests.interop.eventually import eventually
from tests.whole_topic import whole_topic

from ottla import Broker, KafkaAdminClient, TopicPartition
from ottla.errors import ConfigurationError
from ottla_pipelines.capture import local_postgresql, service, topics
from ottla_pipelines.capture.account import account, comparable
from ottla_pipelines.capture.demo import CAUGHT_UP, start_capture, start_writer
from ottla_pipelines.capture.postgresql import APPLICATION, PostgresSource, lsn_number
from ottla_pipelines.capture.workload import TABLES, Workload
from ottla_pipelines.processes import Child, start_broker
from ottla_pipelines.topic_tables import TopicTables

pytestmark = pytest.mark.interop

KILLS = int(os.environ.get("OTTLA_CAPTURE_KILLS", "2"))
SECONDS = 60
TOPIC = "kinds.kinds"
TYPES = """
    create table kinds (
        id bigint, part text, flag boolean, small smallint, number int, single real, precise double precision,
        price numeric(12,2), free numeric, day date, moment timestamptz, here timestamp, code char(5), doc jsonb,
        raw bytea, tags text[], span interval, large text, shout text generated always as (upper(part)) stored,
        primary key (id, part)
    );
"""
WAITS_FOR_BROKER = """
    select 1 from pg_stat_activity where application_name = %s and state = 'idle' and query = 'COMMIT'
    and clock_timestamp() - state_change > interval '1 s'
"""
COMPARED = (
    "id, part, flag, small, number, single::text, precise, price, free::text, day, moment, here, code, doc::text,"
    " raw::text, tags::text, span::text, large"
)


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    if problem := databases.missing("postgresql"):
        pytest.skip(problem)
    with local_postgresql.running({"wal_level": "logical", "max_replication_slots": "50", "fsync": "off"}) as url:
        yield url


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


class CaptureScenario:
    """A database, a broker, and the tables of its topics."""

    def __init__(self, database: str, broker: Broker, name: str, *tables: str) -> None:
        self.database = database
        self.servers = broker.bootstrap_servers
        self.options = service.CaptureOptions(
            database, name, tables, {"bootstrap.servers": self.servers}, {"ottla.table.format": "iceberg"}
        )

    def sql(self, *statements: str) -> None:
        """Run statements in one transaction."""
        with psycopg.connect(self.database) as connection:
            for statement in statements:
                connection.execute(statement)

    def capture(self) -> int:
        """Capture everything that has been committed, in a process that starts and ends."""
        with service.opened(self.options) as capture:
            return capture.run_once()

    def leftovers(self) -> list[tuple[Any, ...]]:
        """Return the slots and the publication of the capture."""
        name = f"'ottla_{self.options.name}%'"
        return [
            *self.expected(f"pg_replication_slots where slot_name like {name}", "slot_name"),
            *self.expected(f"pg_publication where pubname like {name}", "pubname"),
        ]

    def rows(self, topic: str, columns: str) -> list[tuple[Any, ...]]:
        """Return rows of the topic's table."""
        with TopicTables(self.servers) as tables:
            tables.write()
            return sorted(tables.query(f'select {columns} from "{topic}"').rows, key=str)

    def expected(self, table: str, columns: str) -> list[tuple[Any, ...]]:
        """Return rows of the database."""
        with psycopg.connect(self.database, options="-c timezone=UTC -c intervalstyle=iso_8601") as connection:
            rows = connection.execute(f"select {columns} from {table}").fetchall()
        return sorted((tuple(map(comparable, row)) for row in rows), key=str)


def test_changes_of_every_kind_and_type_are_captured(database: str, broker: Broker) -> None:
    scenario = CaptureScenario(database, broker, "kinds", "kinds")
    scenario.sql(TYPES)
    insert = "insert into kinds values "
    scenario.sql(
        insert + "(1, 'ä', true, -32768, 2147483647, 0.1, 1e-300, 12345678.90, 1.5000, '2026-02-28',"
        " '2026-02-28 01:02:03.123456+02', '0044-03-15 01:02:03', 'ab', '{\"a\": [1, null]}', '\\x00ff', '{x,NULL}',"
        " '1 day 2 hours', 'x')",
        insert + "(2, '', " + ", ".join(["null"] * 16) + ")",
    )
    assert scenario.capture() == 2, "the snapshot is incomplete"
    assert scenario.capture() == 0
    assert scenario.rows(TOPIC, COMPARED) == scenario.expected("kinds", COMPARED)
    large = "".join(random.Random(1).choices("abcdefghijklmnop", k=20_000))
    scenario.sql(
        f"insert into kinds (id, part, number, large) values (3, 'large', 1, '{large}'), (4, 'gone', 1, '{large}')",
        "update kinds set number = null, price = -0.01, moment = '1999-12-31 23:59:59.9+00' where id = 1",
    )
    scenario.sql("update kinds set number = 7 where id >= 3")  # the WAL does not have the value of `large`
    scenario.sql("update kinds set id = 30 where id = 3", "delete from kinds where id = 4")
    with psycopg.connect(database) as connection:
        connection.execute("delete from kinds")
        connection.rollback()
    # 2 inserts, 1 update; no row has the keys 3 and 4 now; 2 records for the new key; 1 delete
    assert scenario.capture() == 3 + 0 + 2 + 1
    assert scenario.rows(TOPIC, COMPARED) == scenario.expected("kinds", COMPARED)
    (record,) = (r for r in whole_topic(scenario.servers, TOPIC, 1) if r.key == b'{"id":30,"part":"large"}')
    headers = dict(record.headers)
    assert (headers["__op"], headers["__table"]) == (b"u", b"public.kinds")
    assert re.fullmatch(rb"[0-9A-F]+/[0-9A-F]+", headers["__lsn"] or b"")


def test_truncate_and_unsupported_values_are_captured(database: str, broker: Broker) -> None:
    scenario = CaptureScenario(database, broker, "cut", "cut", "other")
    scenario.sql("create table cut (id int primary key, x double precision)", "create table other (id int primary key)")
    scenario.sql("insert into cut select n, n from generate_series(1, 10) n", "insert into other values (1)")
    scenario.capture()
    scenario.sql("insert into cut values (11, 0)", "truncate cut", "insert into cut values (1, 0.5), (12, 'NaN')")
    assert scenario.capture() == 1 + 11 + 2
    assert scenario.rows("cut.cut", "id, x") == [(1, 0.5)]
    assert scenario.rows("cut.other", "id") == [(1,)]
    with TopicTables(scenario.servers) as tables:
        assert tables.write()
    # NaN has no JSON: it is a text, and a dead letter of the table.
    assert (
        whole_topic(scenario.servers, "cut.cut", 1, isolation_level="read_committed")[-1].value
        == b'{"id":12,"x":"NaN"}'
    )


def test_added_columns_and_full_replica_identity_are_captured(
    database: str, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    # of this module only: the broker's threads sleep, too
    monkeypatch.setattr(service, "time", SimpleNamespace(sleep=waits.append))
    scenario = CaptureScenario(database, broker, "grow", "grow")
    scenario.sql("create table grow (id int primary key, n int)", "alter table grow replica identity full")
    scenario.sql("insert into grow values (1, 1)")
    scenario.capture()
    scenario.sql("update grow set n = 2")
    scenario.sql("alter table grow add column price numeric(5,1)", "update grow set price = 1.5, id = 2")
    assert scenario.capture() == 1 + 2
    assert waits == [topics.DISCOVERY_SECONDS]
    # The first change that a process sees may already have another column.
    scenario.sql("alter table grow add column note text", "insert into grow values (3, 3, 0.1, 'x')")
    assert scenario.capture() == 1
    assert waits == [topics.DISCOVERY_SECONDS] * 2
    assert scenario.rows("grow.grow", "id, n, price, note") == scenario.expected("grow", "id, n, price, note")


def test_columns_and_tables_renamed_before_a_change_is_read_are_captured(database: str, broker: Broker) -> None:
    scenario = CaptureScenario(database, broker, "later", "later", "gone")
    large = "".join(random.Random(1).choices("abcdefghijklmnop", k=20_000))
    scenario.sql(
        "create table later (id int primary key, n int, large text)", "create table gone (like later including all)"
    )
    scenario.sql(f"insert into later values (1, 1, '{large}')", f"insert into gone values (1, 1, '{large}')")
    with service.opened(scenario.options) as capture:
        capture.start()
        scenario.sql("update later set n = 2", "update gone set n = 2")  # the WAL does not have the value of `large`
        scenario.sql(
            'alter table later add column "a b" int', 'alter table later add column "N" int', "drop table gone"
        )
        scenario.sql('update later set "a b" = 3, n = 3', "alter table later rename to later_on")
        assert capture.step() == 2, "a row of the dropped table was captured"
    assert scenario.rows("later.later", "id, n, large") == [(1, 3, large)]
    assert json.loads(whole_topic(scenario.servers, "later.later", 1)[-1].value or b"")["a b"] == 3


def test_table_with_other_encoding_short_timeout_and_inheritance_is_captured(database: str, broker: Broker) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("create database western encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0")
        connection.execute("create role clerk login replication")
        connection.execute("grant create on database western to clerk")
    other = database.removesuffix("postgres") + "western"
    owner = CaptureScenario(other, broker, "western", "parent", "public.parent")
    owner.sql(
        "create table parent (id int primary key, t text)",
        "create table child (primary key (id)) inherits (parent)",
        "insert into parent values (1, 'ä')",
        "insert into child values (2, 'ö')",
        "alter table parent owner to clerk",
        "alter table child owner to clerk",
        "alter role clerk set statement_timeout = 1",
        "create table hidden (id int primary key)",
        "alter table hidden owner to clerk",
        "alter table hidden enable row level security",
        "alter table hidden force row level security",
    )
    clerk = other.replace("postgres@", "clerk@")
    scenario = CaptureScenario(clerk, broker, "western", "parent", "public.parent")
    assert scenario.capture() == 1, "rows of the child table were captured, or a table was copied twice"
    owner.sql("insert into parent values (3, 'ü')", "insert into child values (4, 'ß')")
    assert scenario.capture() == 1
    assert scenario.rows("western.parent", "id, t") == [(1, "ä"), (3, "ü")]
    with pytest.raises(psycopg.Error, match="would be affected by row-level security"):
        CaptureScenario(clerk, broker, "hidden", "hidden").capture()


def test_snapshot_that_is_stopped_starts_again(database: str, broker: Broker) -> None:
    scenario = CaptureScenario(database, broker, "halt", "halt")
    scenario.sql("create table halt (id int primary key)", "insert into halt select generate_series(1, 5)")
    stopping = Event()
    stopping.set()
    with service.opened(scenario.options) as capture:
        capture.run(stopping)
    assert scenario.leftovers() == [], "the slot or the publication still exists"
    assert scenario.capture() == 5


def test_snapshot_that_is_killed_starts_again(database: str, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    class KilledError(Exception):
        """Simulates a kill -9."""

    def killed(_source: PostgresSource, *_: int) -> None:
        raise KilledError

    scenario = CaptureScenario(database, broker, "begun", "begun")
    scenario.sql("create table begun (id int primary key)", "insert into begun select generate_series(1, 5)")
    with monkeypatch.context() as patch:
        patch.setattr(PostgresSource, "end_snapshot", killed)
        with pytest.raises(KilledError):
            scenario.capture()
    scenario.sql("delete from begun where id = 3", "update begun set id = 50 where id = 5")
    scenario.capture()
    assert scenario.rows("begun.begun", "id") == scenario.expected("begun", "id") == [(1,), (2,), (4,), (50,)]
    slots = [("ottla_begun",)]
    assert scenario.expected("pg_replication_slots where slot_name like 'ottla_begun%'", "slot_name") == slots
    scenario.sql("insert into begun values (6)", "delete from begun where id = 1")
    with service.opened(scenario.options) as capture, monkeypatch.context() as patch:
        capture.start()
        patch.setattr(PostgresSource, "advance", killed)
        with pytest.raises(KilledError):  # the records are committed, and the slot still has its old position
            capture.step()
    assert scenario.capture() == 0, "a record was sent again"
    assert_each_change_once(scenario.servers, "begun.begun")
    assert scenario.rows("begun.begun", "id") == scenario.expected("begun", "id")


def test_unsupported_tables_and_options_are_reported(database: str, broker: Broker) -> None:
    CaptureScenario(database, broker, "x").sql(
        "create table keyless (id int)",
        'create table odd (id int primary key, "a b" int)',
        'create table cases (id int primary key, "N" int, n int)',
        "create table nothing (id int primary key)",
        "alter table nothing replica identity nothing",
        "create table later (id int primary key deferrable)",
        "create table lost (id int primary key)",
        "insert into lost values (1)",
        "create table more (id int primary key)",
        "create table parts (id int primary key) partition by range (id)",
        "create view seen as select * from lost",
        'create table "a b" (id int primary key)',
        "create table a_b (id int primary key)",
    )
    for table, message in {
        "missing": "--table public.missing: there is no such table",
        "a.b.c": "--table a.b.c: there is no such table",
        "parts": "it is partitioned; capture its partitions",
        "seen": "it is not a table",
        "keyless": "it has no primary key",
        "cases": "the column 'n' differs from 'N' in case only",
        "odd": "the column 'a b' has a blank",
        "nothing": "run ALTER TABLE public.nothing REPLICA IDENTITY DEFAULT",
        "later": "its primary key is deferrable; run ALTER TABLE public.later REPLICA IDENTITY FULL",
    }.items():
        with pytest.raises(ConfigurationError, match=message):
            CaptureScenario(database, broker, "bad", table).capture()
    with pytest.raises(ConfigurationError, match=r"^--database: expected a URL such as postgresql://user@host/db$"):
        CaptureScenario("postgres:/user:secret@host", broker, "x", "lost").capture()
    with pytest.raises(ConfigurationError, match=r"--table public.a b and public.a_b have the same topic twins.a_b"):
        CaptureScenario(database, broker, "twins", "a b", "a_b").capture()
    assert CaptureScenario(database, broker, "twins").leftovers() == []
    scenario = CaptureScenario(database, broker, "lost", "lost")
    scenario.capture()
    with pytest.raises(ConfigurationError, match="publication ottla_lost has public.lost: use another"):
        CaptureScenario(database, broker, "lost", "lost", "more").capture()
    place = TopicPartition("lost.lost", 0)
    with KafkaAdminClient(bootstrap_servers=scenario.servers) as admin:
        admin.alter_consumer_group_offsets("ottla_lost", {place: 1 << 60})
        with pytest.raises(ConfigurationError, match="ottla_lost has the position 10000000/0, which is after the end"):
            scenario.capture()
        admin.alter_consumer_group_offsets("ottla_lost", {place: 0})
    scenario.sql("alter table lost rename to moved")
    with pytest.raises(ConfigurationError, match="topic lost.moved does not exist, although the rows"):
        CaptureScenario(database, broker, "lost", "moved").capture()
    scenario.sql("alter table moved rename to lost")
    scenario.sql("select pg_drop_replication_slot('ottla_lost')")
    with pytest.raises(ConfigurationError, match="topic lost.lost has records, but PostgreSQL has no slot for them"):
        scenario.capture()


def test_changed_primary_key_is_reported(database: str, broker: Broker) -> None:
    """Changed rows would have another key, and the old rows would stay in the table."""
    kinds = {
        "code": "alter table {0} drop constraint {0}_pkey, add primary key (code)",
        "renamed": "alter table {0} rename id to number",
        "retyped": "alter table {0} alter id type text",
        "whole": "alter table {0} replica identity full, drop constraint {0}_pkey, add primary key (code)",
    }
    for name, change in kinds.items():
        scenario = CaptureScenario(database, broker, name, name)
        scenario.sql(
            f"create table {name} (id int primary key, code text not null)", f"insert into {name} values (1, 'a')"
        )
        with service.opened(scenario.options) as capture:
            capture.start()
            scenario.sql(f"update {name} set id = 2", f"alter table {name} alter id type bigint")
            assert capture.step() == 2
            scenario.sql(change.format(name), f"update {name} set code = 'b'")
            with pytest.raises(
                ConfigurationError, match=rf"--table public.{name}: the columns of its primary key \(.*"
            ):
                capture.step()
        with pytest.raises(ConfigurationError, match=f'{name}.{name} have the key {{"id":1}}. Capture it with another'):
            scenario.capture()


def test_capture_ends_after_a_signal_if_the_broker_hangs(database: str, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    with ExitStack() as stack:
        connection = stack.enter_context(psycopg.connect(database, autocommit=True))
        connection.execute("create table hang (id int primary key)")
        broker, address = start_broker(tmp_path / "broker", logs)
        stack.callback(broker.kill)
        options = ["--database", database, "--name", "hang", "--table", "hang", "--bootstrap-server", address]
        command = [sys.executable, "-m", "ottla", "capture", "run", *options]
        capture = Child("capture", command, logs)
        stack.callback(capture.kill)
        eventually(lambda: has_slot(connection, "ottla_hang"), SECONDS)
        connection.execute("insert into hang values (1)")
        wait_for_capture(connection, "ottla_hang")
        os.kill(broker.process.pid, signal.SIGSTOP)
        connection.execute("insert into hang values (2)")
        eventually(lambda: connection.execute(WAITS_FOR_BROKER, [APPLICATION]).fetchall(), SECONDS)
        capture.process.send_signal(signal.SIGINT)
        assert capture.process.wait(30) == 0, "the request alone would take 60 s"
        os.kill(broker.process.pid, signal.SIGCONT)
        subprocess.run([*command, "--once"], check=True, timeout=SECONDS)
        assert_each_change_once(address, "hang.hang")
        records = whole_topic(address, "hang.hang", 1, isolation_level="read_committed")
        assert [record.key for record in records] == [b'{"id":1}', b'{"id":2}']


def test_killed_capture_and_writer_lose_and_duplicate_no_change(database: str, tmp_path: Path) -> None:
    """Each record is in its topic once, and the tables are equal to the database."""
    choice, logs = random.Random(7), tmp_path / "logs"
    with ExitStack() as stack:
        connection = stack.enter_context(psycopg.connect(database, autocommit=True))
        workload = Workload(connection, seed=7)
        workload.create()
        broker, address = start_broker(tmp_path / "broker", logs)
        stack.callback(broker.stop)
        writer = start_writer(address, logs)
        stack.callback(writer.kill)
        for attempt in range(KILLS + 1):
            capture = start_capture(database, address, logs, "iceberg")
            stack.callback(capture.kill)
            # The first process is killed during the snapshot, and the others while they send changes.
            eventually(lambda: has_slot(connection, "ottla_shop%"), SECONDS)
            if attempt:
                wait_for_capture(connection)
            for _ in range(choice.randint(10, 150) if attempt else 1):
                workload.step()
            if attempt < KILLS:
                capture.kill()
                workload.step()
            if attempt == 1:
                writer.kill()
                writer = start_writer(address, logs)
                stack.callback(writer.kill)
        # A lost connection is opened again.
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s", [APPLICATION]
        )
        workload.step()
        wait_for_capture(connection)
        assert capture.is_running
        writer.stop()
        with TopicTables(address) as tables:
            tables.write()
            for table in TABLES:
                one = account(database, tables, table, f"shop.{table}")
                assert one.is_exact, one.line
                assert_each_change_once(address, f"shop.{table}")


def wait_for_capture(connection: psycopg.Connection[Any], slot: str = "ottla_shop") -> None:
    """Wait until everything that has been committed is in the topics."""
    end = connection.execute("select pg_current_wal_flush_lsn()").fetchall()[0][0]
    eventually(lambda: connection.execute(CAUGHT_UP, [end, slot]).fetchall(), SECONDS)


def has_slot(connection: psycopg.Connection[Any], pattern: str) -> bool:
    return bool(connection.execute("select 1 from pg_replication_slots where slot_name like %s", [pattern]).fetchall())


def assert_each_change_once(address: str, topic: str) -> None:
    """Check that changes are in the order of their transactions, and that none was sent twice."""
    changes = [
        (lsn_number(lsn.decode()), headers["__op"], record.key, record.value)
        for record in whole_topic(address, topic, 1, isolation_level="read_committed")
        if (lsn := (headers := dict(record.headers)).get("__lsn"))
    ]
    assert changes, topic
    assert [change[0] for change in changes] == sorted(change[0] for change in changes)
    assert [change for change, count in Counter(changes).items() if count > 1] == []


def test_how_to_page_runs(database: str, broker: Broker, tmp_path: Path) -> None:
    run_page(
        "turn-a-postgresql-table-into-an-iceberg-table",
        broker.bootstrap_servers,
        tmp_path,
        {"postgresql://me@db.example.com/shop": database},
    )
