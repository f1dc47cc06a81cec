"""The settings of a console."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.errors import ConfigurationError
from ottla_console.cluster.collector import BACKGROUND_SHARE
from ottla_console.security.masking import Masking
from ottla_console.security.users import Credential


class ListenAddress(NamedTuple):
    """The address that the console listens on."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether the host is `localhost` or a loopback IP address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @classmethod
    def parse(cls, text: str) -> ListenAddress:
        """Parse `HOST:PORT` or `[IPv6]:PORT`. Raises ConfigurationError for an invalid text."""
        host, colon, port = text.rpartition(":")
        bare = host.removeprefix("[").removesuffix("]")
        if not colon or not bare or not port.isdecimal() or int(port) > 65_535 or (":" in bare and bare == host):
            raise ConfigurationError(f"--listen: {text!r} is invalid: expected HOST:PORT, such as 127.0.0.1:8080")
        return cls(bare, int(port))


DEFAULT_LISTEN: Final = ListenAddress("127.0.0.1", 8080)


@dataclass(frozen=True)
class ConsoleSettings:
    """The settings of a console. They are not changed while it runs."""

    client_configs: Mapping[str, Any]
    """Configs of the clients by Kafka's names, such as bootstrap.servers."""
    listen: ListenAddress = DEFAULT_LISTEN
    users: Mapping[str, Credential] = field(default_factory=dict)
    """Credentials by user name. Without users, everyone who can connect is an admin, which is only allowed on a
    loopback address.
    """
    read_only: bool = False
    masking: Masking = field(default_factory=Masking)
    has_tls: bool = False
    allowed_hosts: tuple[str, ...] = ()
    """Additional host names in the console's URL, besides loopback names and the listener's address."""
    progress_dirs: tuple[Path, ...] = ()
    """Directories with progress files of Spark queries and pipelines."""
    schema_registry: str = ""
    """The URL of the schema registry with the schemas of records; empty if there is none."""
    schema_registry_auth: str = ""
    """`user:password` for the schema registry; empty if it requires none."""
    broker_metrics: tuple[str, ...] = ()
    """Addresses or URLs of the brokers' Prometheus metrics."""
    broker_metrics_auth: str = ""
    """`user:password` for the brokers' metrics; empty if they require none."""
    sample_seconds: float = 5.0
    background_share: float = BACKGROUND_SHARE

    def check(self) -> None:
        """Raise ConfigurationError if no login is required and `listen.is_loopback` is false."""
        if not self.users and not self.listen.is_loopback:
            raise ConfigurationError(
                f"--listen {self.listen.host}:{self.listen.port} can be reached from other machines, and everyone who "
                "can connect would be an admin of the cluster: add --users FILE, or listen on 127.0.0.1"
            )

    @property
    def hosts(self) -> frozenset[str]:
        """The host names that requests to a console without users may have in the Host header. Requests with other
        names may be DNS rebinding attacks.
        """
        return frozenset({"localhost", "127.0.0.1", "::1", self.listen.host, *self.allowed_hosts})
