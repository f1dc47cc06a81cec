"""What every tool that talks to a broker has: its address, client options, and properties on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.config import properties
from ottla.config.broker import zookeeper_address
from ottla.errors import BrokerNotAvailableError, ConfigurationError

if TYPE_CHECKING:
    from ottla.cluster.store.zk_client import ZkClient

ZOOKEEPER_MS = 15_000
"""How long ZooKeeper may take to be reached, and to answer."""
SERIALIZATION = frozenset({"key.serializer", "value.serializer", "key.deserializer", "value.deserializer"})
"""Options that name what turns values into bytes, and back."""


def add_connection(
    parser: argparse.ArgumentParser,
    *old_names: str,
    required: bool = True,
    zookeeper: bool = False,
    controllers: bool = False,
) -> None:
    """`--bootstrap-server` (or what it was called), `--command-config`; where wanted what stands for the first, too."""
    where = parser.add_mutually_exclusive_group(required=required)
    where.add_argument(
        "--bootstrap-server",
        "--bootstrap-servers",
        *old_names,
        action=_Servers,
        metavar="HOST:PORT[,…]",
        help="brokers to connect to first",
    )
    if zookeeper:
        where.add_argument(
            "--zookeeper",
            action=_Servers,
            metavar="HOST:PORT[,…][/CHROOT]",
            help="as in old Kafka: the brokers found in ZooKeeper",
        )
    if controllers:
        where.add_argument(
            "--bootstrap-controller",
            action=_Servers,
            metavar="HOST:PORT[,…]",
            help="controllers of Apache Kafka (KRaft) instead; those of Ottla are reached through brokers",
        )
    parser.add_argument("--command-config", metavar="FILE", help="a properties file with client options")


class _Servers(argparse.Action):
    """Takes addresses. ConfigurationError where there are none, as an empty variable of a shell leaves it, or wrong."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if not values.partition("/")[0].strip(", "):
            raise ConfigurationError(f"{option_string}: {values!r} names no server: {self.metavar} is wanted")
        if self.dest == "zookeeper":
            try:
                zookeeper_address(values)
            except ValueError as error:
                raise ConfigurationError(f"{option_string}: {values!r} is not allowed: {error}") from None
        setattr(namespace, self.dest, values)


def zookeeper(connect: str) -> ZkClient:
    """A session with ZooKeeper, as a context manager."""
    from ottla.cluster.store.zk_client import ZkClient  # only old commands need it

    return ZkClient(connect, ZOOKEEPER_MS, ZOOKEEPER_MS)


def brokers_in(connect: str) -> str:
    """The brokers that are registered in ZooKeeper, as bootstrap servers; BrokerNotAvailableError for none."""
    with zookeeper(connect) as zk:
        found = zk.brokers().values()
    if not found:
        raise BrokerNotAvailableError(f"no broker with a plain listener is registered in ZooKeeper at {connect}")
    return ",".join(f"{host}:{port}" for host, port in found)


def client_options(args: argparse.Namespace, *more: Iterable[str]) -> dict[str, Any]:
    """Client options by Kafka's name: those of the file, then `key=value` texts, then the address."""
    options: dict[str, Any] = dict(properties.load(args.command_config)) if args.command_config else {}
    for texts in more:
        options.update(properties.override(text) for text in texts)
    connect = getattr(args, "zookeeper", None)
    if connect:
        options["bootstrap.servers"] = brokers_in(connect)
    elif args.bootstrap_server:
        options["bootstrap.servers"] = args.bootstrap_server
        _check_names("--bootstrap-server", args.bootstrap_server)
    elif getattr(args, "bootstrap_controller", None):
        options["bootstrap.controllers"] = args.bootstrap_controller
        _check_names("--bootstrap-controller", args.bootstrap_controller)
    return options


def without_serialization(options: dict[str, Any]) -> dict[str, Any]:
    """These options but for those that name serializers: a file may be for other programs, and tools take bytes."""
    return {name: value for name, value in options.items() if name not in SERIALIZATION}


def check_positive(args: argparse.Namespace, *options: str) -> None:
    """ConfigurationError for a number that has to be greater than zero, where one was given."""
    for option in options:
        value = getattr(args, option)
        if value is not None and value <= 0:
            raise ConfigurationError(f"{as_typed(option)} should be greater than zero, and not {value}")


def _check_names(option: str, servers: str) -> None:
    """ConfigurationError where no server has an address, as Java's clients do; others go on trying for a minute."""
    from ottla.net.client.dns import is_known

    hosts = [host for server in servers.split(",") if (host := server.strip().rpartition(":")[0].strip("[]"))]
    if hosts and not any(map(is_known, hosts)):
        raise ConfigurationError(f"{option}: no server of {servers} has an address; is the name right?")


def not_reached(args: argparse.Namespace, within_ms: float) -> BrokerNotAvailableError:
    """The error of a client that would go on trying for ever."""
    return BrokerNotAvailableError(f"no broker of {args.bootstrap_server} could be reached within {within_ms} ms")


def is_given(args: argparse.Namespace, option: str) -> bool:
    """Whether the command line has this option, whose default is nothing."""
    value = getattr(args, option)
    return not (value is None or value is False or value == [])


def as_typed(option: str) -> str:
    """An option's name on the command line: `--add-config` of `add_config`."""
    return f"--{option.replace('_', '-')}"


def flag(value: str | None, *, default: bool = False) -> bool:
    """A `print.key=true` kind of value."""
    return default if value is None else value.strip().lower() == "true"


def escaped(value: str) -> bytes:
    """A separator as it is typed: `\\t` and its like stand for the character."""
    return value.replace("\\t", "\t").replace("\\n", "\n").replace("\\0", "\0").encode()
