"""The demo of change data: a shop's database changes, and the tables of its topics are queried meanwhile.

PostgreSQL, the broker, the capture and the table writer are processes. At the end, each row and value of the tables is
compared with the database.
"""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import psycopg

from ottla.errors import ConfigurationError
from ottla_pipelines.capture import local_postgresql
from ottla_pipelines.capture.account import TableAccount, account
from ottla_pipelines.capture.workload import TABLES, TOTAL, Workload
from ottla_pipelines.processes import Child, ProcessEndedError, start_broker
from ottla_pipelines.topic_tables import TopicTables, check_packages

NAME: Final = "shop"
SETTINGS: Final = {"wal_level": "logical", "fsync": "off"}
MARK: Final = "capture-demo"
"""The name of a file in the demo's directory, which shows that the directory may be cleared."""
QUERY_SECONDS: Final = 1.0
CATCH_UP_SECONDS: Final = 120.0
FLUSH_MS: Final = 2000
QUERY: Final = "select count(*) as accounts, sum(balance) as total from shop_accounts"


def run_demo(data: Path, seconds: float, table_format: str) -> int:
    """Run the demo, and return the exit code: 0 if all tables are equal to the database, and each query has seen only
    whole transactions.
    """
    check_packages()
    if local_postgresql.programs() is None:
        raise ConfigurationError(
            "the demo starts a PostgreSQL server, which is not installed (Debian: apt install postgresql). `ottla"
            " capture run` captures the tables of any server"
        )
    _clear(data)
    with ExitStack() as stack:
        database = stack.enter_context(local_postgresql.running(SETTINGS))
        connection = stack.enter_context(psycopg.connect(database, autocommit=True))
        workload = Workload(connection, seed=1)
        workload.create()
        broker, address = start_broker(data / "broker", data / "logs")
        stack.callback(broker.stop)
        capture = start_capture(database, address, data / "logs", table_format)
        stack.callback(capture.stop)
        writer = start_writer(address, data / "logs")
        stack.callback(writer.stop)
        print(f"PostgreSQL, broker on {address}, capture and table writer are running; logs in {data / 'logs'}")
        with TopicTables(address) as tables:
            _wait_for(connection, [broker, capture, writer])
            is_consistent = _change(workload, tables, seconds, [broker, capture, writer])
            _wait_for(connection, [broker, capture, writer])
            writer.stop()
            tables.write()
            accounts = [account(database, tables, table, f"{NAME}.{table}") for table in TABLES]
    _report(workload, accounts, data)
    if not is_consistent:
        print("A query has seen a part of a transaction.")
    return 0 if is_consistent and all(one.is_exact for one in accounts) else 1


def start_capture(database: str, bootstrap_servers: str, logs: Path, table_format: str) -> Child:
    """Start `ottla capture run` for the tables of the workload."""
    tables = [part for table in TABLES for part in ("--table", table)]
    settings = ["--topic-config", f"ottla.table.flush.ms={FLUSH_MS}", "--table-format", table_format]
    options = ["--database", database, "--name", NAME, "--bootstrap-server", bootstrap_servers, *tables, *settings]
    return Child("capture", [sys.executable, "-m", "ottla", "capture", "run", *options], logs)


def start_writer(bootstrap_servers: str, logs: Path) -> Child:
    """Start `ottla tables run`."""
    command = [sys.executable, "-m", "ottla", "tables", "run", "--bootstrap-server", bootstrap_servers]
    return Child("tables", command, logs)


def _clear(data: Path) -> None:
    mark = data / MARK
    if data.exists() and not mark.exists() and (not data.is_dir() or any(data.iterdir())):
        raise ConfigurationError(f"--data {data}: contains other files, so it is not changed; set another directory")
    if mark.exists():
        shutil.rmtree(data)
    data.mkdir(parents=True, exist_ok=True)
    mark.touch()


def _wait_for(connection: psycopg.Connection[Any], children: list[Child]) -> None:
    """Wait until the capture has sent everything that was committed. Raises ProcessEndedError if a process ends, or if
    the capture takes longer than CATCH_UP_SECONDS.
    """
    end = connection.execute("select pg_current_wal_flush_lsn()").fetchall()[0][0]
    deadline = time.monotonic() + CATCH_UP_SECONDS
    while not connection.execute(CAUGHT_UP, [end, f"ottla_{NAME}"]).fetchall():
        _check(children)
        if time.monotonic() > deadline:
            raise ProcessEndedError(
                f"the capture does not catch up; {children[1].log} ends with:\n{children[1].log_tail()}"
            )
        time.sleep(0.1)


CAUGHT_UP: Final = "select 1 from pg_replication_slots where confirmed_flush_lsn >= %s::pg_lsn and slot_name = %s"


def _check(children: list[Child]) -> None:
    for child in children:
        child.check()
        if not child.is_running:
            raise ProcessEndedError(f"{child.name} ended too early; {child.log} ends with:\n{child.log_tail()}")


def _change(workload: Workload, tables: TopicTables, seconds: float, children: list[Child]) -> bool:
    """Change the database and query the tables. Return whether every query saw only whole transactions."""
    print(
        f"The database changes for {seconds:.0f} s. Each transfer between accounts changes two rows, so that the sum is"
    )
    print(f"always {TOTAL:,}: {QUERY}")
    end, query_at, is_consistent = time.monotonic() + seconds, time.monotonic(), True
    while time.monotonic() < end:
        workload.step()
        if time.monotonic() >= query_at:
            _check(children)
            began = time.monotonic()
            ((count, total),) = tables.query(QUERY).rows
            is_consistent &= total == TOTAL
            committed = workload.transactions.total()
            took_ms = 1000 * (time.monotonic() - began)
            print(f"  {committed:>6,} transactions: {count:,} accounts, {total:,} ({took_ms:.0f} ms)", flush=True)
            query_at = time.monotonic() + QUERY_SECONDS
    return is_consistent


def _report(workload: Workload, accounts: list[TableAccount], data: Path) -> None:
    print(f"{workload.transactions.total():,} transactions were committed:")
    print("  " + ", ".join(f"{count:,} {kind}" for kind, count in workload.transactions.most_common()))
    for one in accounts:
        print(one.line)
    rows, values = sum(one.in_database for one in accounts), sum(one.values for one in accounts)
    missing, surplus = sum(one.missing for one in accounts), sum(one.surplus for one in accounts)
    print(f"{rows - missing:,} of {rows:,} rows, {missing:,} missing, {surplus:,} surplus, {values:,} values compared")
    print("\nNext:")
    print(f"  ottla broker --override log.dirs={data / 'broker'} &       the broker again")
    print('  ottla tables query --bootstrap-server localhost:9092 "select * from shop_orders limit 5"')
    print("  ottla capture run --help                               the same with your database")
