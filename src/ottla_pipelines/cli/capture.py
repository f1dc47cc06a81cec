"""`ottla capture`: the changes of PostgreSQL tables as topics with Iceberg, Delta or Parquet tables.

    ottla capture run --database postgresql://me@host/shop --name shop --table orders --bootstrap-server localhost:9092
    ottla tables query --bootstrap-server localhost:9092 "select count(*) from shop_orders"

A row of the database is a row of the table: inserts add it, updates replace it, deletes and TRUNCATE delete it.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
from pathlib import Path
from threading import Event
from typing import Any

from ottla import log_output
from ottla.cli.framework.command import Action, Command, CommandFailedError, not_installed
from ottla.cli.framework.connection import client_options, connection, without_serialization
from ottla.cli.framework.options import Flag, Option, Repeatable
from ottla.cli.framework.signals import stopping
from ottla.errors import ConfigurationError, KafkaError

FORMATS = ("iceberg", "delta", "parquet")
GRACE_SECONDS = 3.0
"""Time in seconds that requests to brokers and to the database have after a signal."""
NAME = re.compile(r"[a-z0-9_]{1,40}")
"""The names that --name accepts: PostgreSQL allows only these characters in the name of a slot."""


def run(args: argparse.Namespace) -> int:
    """Capture changes until SIGINT or SIGTERM, or with --once those up to now. Raises KafkaError and
    CommandFailedError.
    """
    try:
        import psycopg

        from ottla_pipelines.capture import service
    except ModuleNotFoundError as error:
        raise not_installed("capture", error, "postgresql") from None
    logging.basicConfig(level=logging.INFO, format=log_output.TEXT, stream=sys.stderr)
    logging.getLogger("ottla.client").setLevel(logging.WARNING)
    options = service.CaptureOptions(
        args.database,
        args.name,
        args.table,
        without_serialization(client_options(args)),
        {"ottla.table.format": args.table_format, **dict(map(_setting, args.topic_config))},
    )
    try:
        if args.once:
            with service.opened(options) as capture:
                print(f"{capture.run_once()} records sent")
            return 0
        print(f"ottla capture sends changes to topics {args.name}.… (Ctrl+C stops it)", flush=True)
        stopped = Event()
        with stopping(stopped.set, GRACE_SECONDS):
            service.run(options, stopped)
    except psycopg.Error as error:
        raise CommandFailedError(f"ottla capture: {' '.join(str(error).split())}") from error
    return 0


def demo(args: argparse.Namespace) -> int:
    """Run the demo, and return the exit code: 0 if the tables are equal to the database and queries saw only whole
    transactions. Raises CommandFailedError.
    """
    try:
        from ottla_pipelines.capture.demo import run_demo

        return run_demo(args.data.resolve(), args.seconds, args.table_format)
    except ModuleNotFoundError as error:
        remedy = "run `pip install 'ottla[postgresql,tables]'`"
        raise CommandFailedError(f"ottla capture: {error.name} is not installed; {remedy}") from None
    except (KafkaError, OSError) as error:
        raise CommandFailedError(f"ottla capture: {error}") from error


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigurationError(f"--topic-config {text!r}: expected KEY=VALUE")
    return name.strip(), value


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed: expected up to 40 of a-z, 0-9 and _")
    return text


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed: expected a number above 0 and below 1,000,000")
    return value


_FORMAT: dict[str, Any] = {"choices": FORMATS, "default": "iceberg"}

COMMAND = Command(
    subcommands=True,
    actions=(
        Action(
            "run",
            "send the rows of tables and their changes to topics, until Ctrl+C or SIGTERM",
            run,
            (
                Option(
                    "--database URL",
                    "URL of a database with wal_level=logical, such as postgresql://user@host/db",
                    required=True,
                ),
                Option(
                    "--name NAME",
                    "first part of the topic names; the publication and the replication slot are called ottla_NAME "
                    "(the slot ottla_NAME_snapshot until all rows are copied)",
                    _name,
                    required=True,
                ),
                Repeatable(
                    "--table TABLE",
                    "table to capture, as NAME or SCHEMA.NAME; it must have a primary key",
                    required=True,
                ),
                *connection(),
                Option("--table-format iceberg|delta|parquet", "format of the tables of new topics", **_FORMAT),
                Repeatable("--topic-config KEY=VALUE", "config of new topics, such as ottla.table.flush.ms=1000"),
                Flag("--once", "send what has been committed so far, and exit"),
            ),
        ),
        Action(
            "demo",
            "change tables of a local PostgreSQL for some seconds, query their topics' tables, and compare all rows",
            demo,
            (
                Option(
                    "--data DIR",
                    "directory for the data of the broker and the tables; if it is from an earlier demo, it is emptied "
                    "first",
                    Path,
                    default=Path("capture-demo"),
                ),
                Option(
                    "--seconds S", "time in seconds for which the demo changes the database", _seconds, default=15.0
                ),
                Option("--table-format iceberg|delta|parquet", "format of the tables", **_FORMAT),
            ),
        ),
    ),
)
