"""`ottla console`: a web console for a cluster of Ottla or Apache Kafka.

It shows brokers, topics, records, groups, transactions, ACLs, users, quotas, log directories and Spark queries, and
changes most of them. Without --users, everyone who can connect has the role admin; the console then only listens on
loopback addresses.
"""

from __future__ import annotations

import argparse
import getpass
import importlib
import logging
import sys
from pathlib import Path

from ottla import log_output
from ottla.cli.framework.command import Command, CommandFailedError, not_installed
from ottla.cli.framework.connection import client_options, connection, without_serialization
from ottla.cli.framework.options import Flag, Option, Repeatable
from ottla.errors import ConfigurationError
from ottla_console.serving import serve


def run(args: argparse.Namespace) -> int:
    """Serve the console until SIGINT or SIGTERM, or print a hash for --hash-password. Return the exit code. Raises
    ConfigurationError and CommandFailedError.
    """
    if args.hash_password:
        return _print_hash()
    if not args.bootstrap_server:
        raise ConfigurationError("--bootstrap-server is required")
    try:
        import uvicorn  # noqa: F401 - serve() needs it

        from ottla_console.application import create_app
    except ModuleNotFoundError as error:
        raise not_installed("console", error, "console") from None
    from ottla_console.security.masking import Masking
    from ottla_console.security.users import load_users
    from ottla_console.settings import ConsoleSettings, ListenAddress

    if bool(args.tls_cert) != bool(args.tls_key):
        raise ConfigurationError("--tls-cert and --tls-key must be set together")
    if args.schema_registry:
        _check_decoders()
    settings = ConsoleSettings(
        without_serialization(client_options(args)),
        ListenAddress.parse(args.listen),
        load_users(args.users) if args.users else {},
        args.read_only,
        Masking(args.mask),
        bool(args.tls_cert),
        tuple(args.allowed_host),
        tuple(Path(directory) for directory in args.progress_dir),
        args.schema_registry or "",
        _credentials("--schema-registry-auth", args.schema_registry_auth),
        tuple(address for text in args.broker_metrics for address in text.split(",") if address),
        _credentials("--broker-metrics-auth", args.broker_metrics_auth),
    )
    app = create_app(settings)
    logging.basicConfig(level=logging.INFO, format=log_output.TEXT, stream=sys.stderr)
    host, port = settings.listen
    if not settings.has_tls and not settings.listen.is_loopback:
        logging.getLogger("ottla.console").warning(
            "Passwords are received and records are sent without TLS; unless a proxy adds it, set --tls-cert and "
            "--tls-key"
        )
    scheme, shown = ("https" if settings.has_tls else "http"), f"[{host}]" if ":" in host else host
    title = f"ottla console for {args.bootstrap_server} on {scheme}://{shown}:{port} (Ctrl+C stops it)"
    exit_code, _ = serve(app, host, port, args.tls_cert, args.tls_key, title)
    return exit_code


def _credentials(option: str, path: Path | None) -> str:
    """Return `user:password` from a file; empty if `path` is None. Raises ConfigurationError if the file cannot be
    read, or does not have this format.
    """
    if path is None:
        return ""
    try:
        line = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{option}: cannot read {path}: {error}") from None
    if ":" not in line or "\n" in line:
        raise ConfigurationError(f"{option}: {path} must have one line USER:PASSWORD")
    return line


def _check_decoders() -> None:
    """Raise CommandFailedError if the packages that decode Avro and Protobuf are not installed."""
    for module in ("fastavro", "google.protobuf"):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError:
            raise CommandFailedError(
                f"ottla console: --schema-registry: {module} is not installed; run `pip install 'ottla[schemas]'`"
            ) from None


def _print_hash() -> int:
    """Read a password and print its hash for the file of `--users`. Raises ConfigurationError if the password is
    empty or too long.
    """
    from ottla_console.security.users import hash_password

    password = getpass.getpass("Password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    if not password:
        raise ConfigurationError("--hash-password: the password is empty")
    print(hash_password(password))
    return 0


COMMAND = Command(
    run=run,
    options=(
        *connection(required=False),
        Option("--listen HOST:PORT", "address that the console listens on", default="127.0.0.1:8080"),
        Option(
            "--users FILE", "file with one user per line, as name:role:hash; roles are viewer, editor and admin", Path
        ),
        Flag("--hash-password", "read a password, print its hash for --users, and exit"),
        Flag("--read-only", "reject all changes"),
        Repeatable(
            "--mask TOPIC=FIELD[,FIELD]",
            "mask fields of records: paths in JSON values, or $key, $value, $headers; TOPIC may contain *",
        ),
        Repeatable("--allowed-host NAME", "additional host name in the console's URL, if --users is not set"),
        Repeatable("--progress-dir DIR", "directory with progress files of Spark queries and pipelines"),
        Option("--schema-registry URL", "schema registry, to show records in Avro and Protobuf as JSON"),
        Option("--schema-registry-auth FILE", "file with USER:PASSWORD for the schema registry", Path),
        Repeatable(
            "--broker-metrics HOST:PORT[,…]",
            "addresses or URLs of the brokers' Prometheus metrics, to show for example traffic, rebalances and full "
            "disks",
        ),
        Option("--broker-metrics-auth FILE", "file with USER:PASSWORD for --broker-metrics", Path),
        Option("--tls-cert FILE", "certificate chain (PEM) for HTTPS; requires --tls-key"),
        Option("--tls-key FILE", "private key of the certificate (PEM)"),
    ),
)
