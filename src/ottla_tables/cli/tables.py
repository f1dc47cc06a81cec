"""`ottla tables`: write topics to Iceberg, Delta or Parquet tables, and query them with SQL.

`run` writes the topics whose config ottla.table.format is iceberg, delta or parquet. It reads the log segments of the
brokers on this machine, and commits their offsets with the rows, so that no record is lost or repeated. `query` reads
any topic.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
from pathlib import Path
from threading import Event

from ottla import log_output
from ottla.cli.framework.command import Action, Command, not_installed
from ottla.cli.framework.connection import client_options, connection, without_serialization
from ottla.cli.framework.options import JSON, Flag, Option, Repeatable
from ottla.cli.framework.signals import stopping
from ottla.config import properties


def run(args: argparse.Namespace) -> int:
    """Write tables until SIGINT or SIGTERM, with --until-eof also until the end of standard input, or with --once until
    all current records are written. Raises KafkaError if the start or, with --once, a lookup or a write
    fails, and CommandFailedError if a package is missing.
    """
    _check_packages()
    from ottla.client.admin.admin import KafkaAdminClient
    from ottla_tables.formats.factory import TableFactory
    from ottla_tables.log.lookup import Lookup
    from ottla_tables.log.tiered import TieredRecords
    from ottla_tables.opening import WriterFactory
    from ottla_tables.service import TableService

    _log(logging.INFO)
    configs = without_serialization(client_options(args))
    with KafkaAdminClient(configs) as admin:
        lookup = Lookup(admin)
        directory = args.directory or lookup.default_directory()
        factory = TableFactory(directory, _catalog_properties(args))
        writers = WriterFactory(factory, TieredRecords(lookup, configs))
        service = TableService(lookup, writers.open, args.topic or None)
        if args.once:
            print(f"{service.write_all()} rows written")
            return 0
        print(f"ottla tables writes below {directory} (Ctrl+C stops it)", flush=True)
        stopped = Event()
        if args.until_eof:
            threading.Thread(target=_wait_for_end, args=(stopped,), daemon=True, name="parent").start()
        with stopping(stopped.set):
            service.run(stopped)
    return 0


def _wait_for_end(stopped: Event) -> None:
    # Not sys.stdin: its lock must not be taken when the interpreter ends.
    while os.read(0, 4096):
        pass
    stopped.set()


def query(args: argparse.Namespace) -> int:
    """Run a query and print its result. Raises KafkaError or an error of a catalog or object store if that fails, and
    CommandFailedError if a package is missing.
    """
    _check_packages()
    from ottla.client.admin.admin import KafkaAdminClient
    from ottla_tables.cli import query as printing
    from ottla_tables.formats.factory import TableFactory
    from ottla_tables.log.lookup import Lookup
    from ottla_tables.query.engine import QueryEngine

    _log(logging.WARNING)
    configs = without_serialization(client_options(args))
    with KafkaAdminClient(configs) as admin:
        lookup = Lookup(admin)
        factory = TableFactory(args.directory or lookup.default_directory(), _catalog_properties(args))
        return printing.query(QueryEngine(lookup, factory, configs), args)


def _log(level: int) -> None:
    logging.basicConfig(level=level, format=log_output.TEXT, stream=sys.stderr)
    for name in ("pyiceberg", "ottla.client"):  # their errors are reported here
        logging.getLogger(name).setLevel(logging.ERROR)


def _catalog_properties(args: argparse.Namespace) -> dict[str, str]:
    return dict(properties.load(args.catalog_config)) if args.catalog_config else {}


def _check_packages() -> None:
    try:
        import deltalake  # noqa: F401
        import duckdb  # noqa: F401
        import pyarrow  # noqa: F401
        import pyiceberg  # noqa: F401
    except ModuleNotFoundError as error:
        raise not_installed("tables", error, "tables") from None


PLACE = (
    *connection(),
    Option(
        "--directory DIR",
        "directory of tables without ottla.table.location (default: `tables` in the first log directory of the broker "
        "with the lowest id)",
        Path,
    ),
    Option("--catalog-config FILE", "properties file for catalogs, object stores and schema registries"),
)

COMMAND = Command(
    subcommands=True,
    actions=(
        Action(
            "run",
            "write tables until Ctrl+C or SIGTERM",
            run,
            (
                *PLACE,
                Repeatable(
                    "--topic TOPIC", "topic whose table is written (default: all topics with ottla.table.format)"
                ),
                Flag("--once", "write all committed records that are not in the tables yet, and exit"),
                Flag("--until-eof", "stop also at the end of standard input, for use by a broker; ignored with --once"),
            ),
        ),
        Action(
            "query",
            "query topics with SQL (DuckDB); a topic is a view of its table and of the newer records in the log",
            query,
            (
                Option("sql SQL", "query, such as: select count(*) from orders"),
                *PLACE,
                JSON,
            ),
        ),
    ),
)
