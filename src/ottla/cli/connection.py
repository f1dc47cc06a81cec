"""What every tool that talks to a broker has: its address, client options, and properties on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from ottla.config import properties


def add_connection(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """`--bootstrap-server` and `--command-config`."""
    parser.add_argument(
        "--bootstrap-server",
        "--bootstrap-servers",
        required=required,
        metavar="HOST:PORT[,…]",
        help="brokers to connect to first",
    )
    parser.add_argument("--command-config", metavar="FILE", help="a properties file with client options")


class ZooKeeper(argparse.Action):
    """`--zookeeper` of old commands: one line instead of a broker that cannot be found."""

    def __call__(self, parser: argparse.ArgumentParser, *given: object) -> None:
        """End the command with that line."""
        parser.exit(2, f"{parser.prog}: --zookeeper comes with the cluster; a node is asked with --bootstrap-server\n")


def add_zookeeper(parser: argparse.ArgumentParser) -> None:
    """`--zookeeper`."""
    parser.add_argument("--zookeeper", action=ZooKeeper, metavar="HOST:PORT", help="comes with the cluster")


def client_options(args: argparse.Namespace, *more: Iterable[str]) -> dict[str, Any]:
    """Client options by Kafka's name: those of the file, then `key=value` texts, then the address."""
    options: dict[str, Any] = dict(properties.load(args.command_config)) if args.command_config else {}
    for texts in more:
        options.update(properties.override(text) for text in texts)
    options["bootstrap.servers"] = args.bootstrap_server
    return options


def flag(value: str | None, *, default: bool = False) -> bool:
    """A `print.key=true` kind of value."""
    return default if value is None else value.strip().lower() == "true"


def escaped(value: str) -> bytes:
    """A separator as it is typed: `\\t` and its like stand for the character."""
    return value.replace("\\t", "\t").replace("\\n", "\n").replace("\\0", "\0").encode()
