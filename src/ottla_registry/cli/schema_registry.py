"""`ottla schema-registry`: a schema registry with Confluent's REST API over the topic `_schemas`.

The properties file may be that of Confluent's registry: listeners, kafkastore.bootstrap.servers, kafkastore.topic,
kafkastore.topic.replication.factor and kafkastore.timeout.ms have the same meaning, kafkastore.group.id and
kafkastore.init.timeout.ms are ignored, and other kafkastore.* properties are client configs.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ottla import log_output
from ottla.cli.framework.command import Command, not_installed
from ottla.cli.framework.connection import client_options, connection, without_serialization
from ottla.cli.framework.options import Option
from ottla.config import properties
from ottla.errors import ConfigurationError
from ottla_console.security.users import load_users
from ottla_console.serving import serve

OWN = ("topic", "topic.replication.factor", "timeout.ms", "group.id", "init.timeout.ms")
"""The names, without the prefix kafkastore., of properties that are not client configs."""


def run(args: argparse.Namespace) -> int:
    """Serve the registry until SIGINT or SIGTERM, which `serve` raises again. Return the exit code if the server ends
    without a signal. Raises ConfigurationError for invalid options and for an address that cannot be bound, and
    CommandFailedError if a package is missing.
    """
    file: Mapping[str, str] = properties.load(args.file) if args.file else {}
    configs = {**_client_configs(file), **without_serialization(client_options(args))}
    if not configs.get("bootstrap.servers"):
        raise ConfigurationError("--bootstrap-server is required, or kafkastore.bootstrap.servers in FILE")
    listener = args.listeners or file.get("listeners") or f"{'https' if args.tls_cert else 'http'}://127.0.0.1:8081"
    has_tls = bool(args.tls_cert)
    if has_tls != bool(args.tls_key):
        raise ConfigurationError("--tls-cert and --tls-key must be set together")
    host, port = parse_listener(listener, "https" if has_tls else "http")
    users = load_users(args.users) if args.users else {}
    try:
        import fastavro  # noqa: F401 - the first schema would fail
        import uvicorn  # noqa: F401 - serve() needs it

        from ottla_registry.registry import SchemaRegistry
        from ottla_registry.rest.application import create_app
    except ModuleNotFoundError as error:
        raise not_installed("schema-registry", error, "registry") from None
    from ottla_registry.store.state import RegistryState
    from ottla_registry.store.topic import SchemasTopic

    logging.basicConfig(level=logging.INFO, format=log_output.TEXT, stream=sys.stderr)
    state = RegistryState()
    topic = SchemasTopic(
        state,
        configs,
        file.get("kafkastore.topic", "_schemas"),
        _integer(file, "kafkastore.topic.replication.factor", 3),
        _integer(file, "kafkastore.timeout.ms", 10_000),
    )
    app = create_app(SchemaRegistry(state, topic), users)
    log = logging.getLogger("ottla.schema_registry")
    if users and not has_tls:
        log.warning("Passwords are received without TLS; unless a proxy adds it, set --tls-cert and --tls-key")
    if not users and host not in ("127.0.0.1", "::1", "localhost"):
        log.warning("Everyone who can connect to %s is an admin of the registry; set --users", listener)
    title = f"ottla schema-registry for {configs['bootstrap.servers']} on {listener} (Ctrl+C stops it)"
    exit_code, has_started = serve(app, host, port, args.tls_cert, args.tls_key, title)
    return exit_code if has_started else exit_code or 1


def parse_listener(text: str, scheme: str) -> tuple[str, int]:
    """Return the host and the port of `SCHEME://HOST:PORT`; without a host, 0.0.0.0. Raises ConfigurationError if the
    text has another format or scheme.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "0.0.0.0", parts.port  # Confluent's `http://:8081` is every address
    except ValueError:
        port = None
    if port is None or parts.scheme != scheme or parts.path not in ("", "/"):
        raise ConfigurationError(f"--listeners: {text!r} is invalid: expected {scheme}://HOST:PORT")
    return host, port


def _client_configs(file: Mapping[str, str]) -> dict[str, Any]:
    """Return the client configs in a properties file of Confluent's registry."""
    configs = {
        name.removeprefix("kafkastore."): value for name, value in file.items() if name.startswith("kafkastore.")
    }
    servers = configs.get("bootstrap.servers", "")
    if servers:  # with the security protocol, as PLAINTEXT://HOST:PORT
        configs["bootstrap.servers"] = ",".join(server.strip().rpartition("://")[2] for server in servers.split(","))
    return {name: value for name, value in configs.items() if name not in OWN}


def _integer(file: Mapping[str, str], name: str, default: int) -> int:
    try:
        value = int(file.get(name, default))
    except ValueError:
        value = 0
    if value < 1:
        raise ConfigurationError(f"{name} must be a positive integer, and not {file[name]!r}")
    return value


COMMAND = Command(
    run=run,
    options=(
        Option("file FILE", "properties file of the registry, with Confluent's property names", nargs="?"),
        *connection(required=False),
        Option(
            "--listeners URL",
            "address to listen on (default: listeners in FILE, or http://127.0.0.1:8081, with --tls-cert https)",
        ),
        Option(
            "--users FILE",
            "file with one user per line, as name:role:hash; `ottla console --hash-password` prints the hash. Viewers "
            "read, editors also register schemas, and admins also delete and configure (default: every client is an "
            "admin)",
            Path,
        ),
        Option("--tls-cert FILE", "certificate chain (PEM) for https"),
        Option("--tls-key FILE", "private key of the certificate (PEM)"),
    ),
)
