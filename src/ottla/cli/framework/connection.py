"""The options of tools that connect to a cluster: addresses, and client configs from a profile, a file or the command
line.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.cli.framework import profiles
from ottla.cli.framework.options import OneOf, Option, Options, flag_name
from ottla.config import properties
from ottla.config.broker.broker_config import zookeeper_address
from ottla.errors import BrokerNotAvailableError, ConfigurationError

if TYPE_CHECKING:
    from ottla.cluster.store.zk_client import ZkClient

ZOOKEEPER_MS = 15_000
"""Timeout of connections and sessions of ZooKeeper, in milliseconds. A call without a response in this time fails."""
SERIALIZATION = frozenset({"key.serializer", "value.serializer", "key.deserializer", "value.deserializer"})
"""Client configs that select serializers and deserializers."""


def connection(*old_names: str, required: bool = True, zookeeper: bool = False, controllers: bool = False) -> Options:
    """Return `--bootstrap-server`, `--command-config` and `--profile`.

    Args:
        old_names: earlier names of `--bootstrap-server`.
        required: whether one of the options for addresses is required, unless OTTLA_BOOTSTRAP_SERVERS is set or the
            file of profiles exists.
        zookeeper: whether to add `--zookeeper`, which looks up the brokers in ZooKeeper.
        controllers: whether to add `--bootstrap-controller`, for Apache Kafka's controllers (KIP-919).
    """
    servers = [
        Option(
            ", ".join(("--bootstrap-server", "--bootstrap-servers", *old_names)) + " HOST:PORT[,…]",
            "addresses of brokers to connect to, separated by commas; one is enough, the others are discovered "
            "(default: OTTLA_BOOTSTRAP_SERVERS in the environment)",
            action=_Servers,
        )
    ]
    if zookeeper:
        servers.append(
            Option(
                "--zookeeper HOST:PORT[,…][/CHROOT]",
                "connect to the brokers with a plaintext listener that are registered in ZooKeeper, as in Kafka 0.8",
                action=_Servers,
            )
        )
    if controllers:
        servers.append(
            Option(
                "--bootstrap-controller HOST:PORT[,…]",
                "controllers of Apache Kafka (KRaft) to connect to instead of brokers; for a cluster of Ottla, use "
                "--bootstrap-server",
                action=_Servers,
            )
        )
    file = Option(
        "--command-config FILE",
        "properties file with client configs, such as credentials; they override those of the profile",
    )
    profile = Option(
        "--profile NAME",
        "profile with the connection to use (default: OTTLA_PROFILE, or else the one that `default` in the file "
        "names). Profiles are in the file that OTTLA_CONFIG names, or else in ottla/config.toml in XDG_CONFIG_HOME "
        "(~/.config)",
    )
    return _Connection(*servers, required=required), file, profile


class _Connection(OneOf):
    """Options for addresses. If they are required, one of them must be used, unless OTTLA_BOOTSTRAP_SERVERS is set or
    the file of profiles exists.
    """

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Add the options to an argparse parser, as required only if no other source may have addresses."""
        self._required = self._required and not profiles.has_connection()
        super().add_to(parser)


class _Servers(argparse.Action):
    """Stores addresses. Raises ConfigurationError if the value contains none, for example because of an unset shell
    variable, or if that of `--zookeeper` is not valid.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if not values.partition("/")[0].strip(", "):
            raise ConfigurationError(f"{option_string}: {values!r} names no server: expected {self.metavar}")
        if self.dest == "zookeeper":
            try:
                zookeeper_address(values)
            except ValueError as error:
                raise ConfigurationError(f"{option_string}: {values!r} is not allowed: {error}") from None
        setattr(namespace, self.dest, values)


def zookeeper(connect: str) -> ZkClient:
    """Return a ZooKeeper client: a context manager that connects, and closes at the end of the block."""
    from ottla.cluster.store.zk_client import ZkClient  # only old commands need it

    return ZkClient(connect, ZOOKEEPER_MS, ZOOKEEPER_MS)


def brokers_in(connect: str) -> str:
    """Return the addresses of the brokers that are registered in ZooKeeper with a plaintext listener, as a value of
    bootstrap.servers. Raises BrokerNotAvailableError if there are none.
    """
    with zookeeper(connect) as zk:
        addresses = zk.brokers().values()
    if not addresses:
        raise BrokerNotAvailableError(f"no broker with a plain listener is registered in ZooKeeper at {connect}")
    return ",".join(f"{host}:{port}" for host, port in addresses)


def client_options(args: argparse.Namespace, *more: Iterable[str]) -> dict[str, Any]:
    """Return the client configs. Each source overrides those before it: the profile, OTTLA_BOOTSTRAP_SERVERS (without
    --profile), the file of --command-config, the `key=value` texts in `more`, and the options for addresses.

    With --bootstrap-controller, bootstrap.controllers replaces bootstrap.servers. Raises ConfigurationError if a source
    is invalid or cannot be read, or if no host name of --bootstrap-server or --bootstrap-controller can be resolved,
    and BrokerNotAvailableError if ZooKeeper has no broker with a plaintext listener.
    """
    options: dict[str, Any] = dict(profiles.configs(args.profile))
    if args.command_config:
        options.update(properties.load(args.command_config))
    for texts in more:
        options.update(properties.override(text) for text in texts)
    connect = getattr(args, "zookeeper", None)
    if connect:
        options["bootstrap.servers"] = brokers_in(connect)
    elif args.bootstrap_server:
        options["bootstrap.servers"] = args.bootstrap_server
        _check_names("--bootstrap-server", args.bootstrap_server)
    elif getattr(args, "bootstrap_controller", None):
        options.pop("bootstrap.servers", None)
        options["bootstrap.controllers"] = args.bootstrap_controller
        _check_names("--bootstrap-controller", args.bootstrap_controller)
    return options


def without_serialization(options: dict[str, Any]) -> dict[str, Any]:
    """Return the configs without serializers and deserializers, for tools that work with bytes. The user's file may
    contain some for other programs.
    """
    return {name: value for name, value in options.items() if name not in SERIALIZATION}


def check_positive(args: argparse.Namespace, *options: str) -> None:
    """Raise ConfigurationError if one of these options was set to zero or a negative number."""
    for option in options:
        value = getattr(args, option)
        if value is not None and value <= 0:
            raise ConfigurationError(f"{flag_name(option)} should be greater than zero, and not {value}")


def _check_names(option: str, servers: str) -> None:
    """Raise ConfigurationError if no host name of `servers` resolves, as Java's clients do. Without this check, a tool
    would retry until its timeout.
    """
    from ottla.net.client.dns import is_known

    hosts = [host for server in servers.split(",") if (host := server.strip().rpartition(":")[0].strip("[]"))]
    if hosts and not any(map(is_known, hosts)):
        raise ConfigurationError(f"{option}: no host name of {servers} can be resolved; is it misspelled?")


def unreachable(args: argparse.Namespace, within_ms: float) -> BrokerNotAvailableError:
    """Return the error for a tool that has reached no broker within `within_ms` milliseconds."""
    servers = client_options(args).get("bootstrap.servers", "localhost:9092")
    return BrokerNotAvailableError(f"no broker of {servers} could be reached within {within_ms} ms")
