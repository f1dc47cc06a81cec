"""Listeners: their addresses, security protocols, authentication, TLS, and limits of connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla import addresses
from ottla.config.broker.principal_rules import checked as principal_rules
from ottla.config.jaas import MECHANISMS, MODULES, OAUTH_MODULE, PLAIN_MODULE, Jaas, jaas
from ottla.config.oauth import OAuthCheckConfig, OAuthLoginConfig
from ottla.config.options import Option, boolean, integer, nullable, one_of, text, words
from ottla.config.tls import SslConfig, TlsConfig
from ottla.config.topic import DAY_MS, INT_MAX
from ottla.errors import ConfigurationError

NETWORK_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

ACL_AUTHORIZER = "AclAuthorizer"
AUTHORIZERS = {
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer": ACL_AUTHORIZER,
    "kafka.security.authorizer.AclAuthorizer": ACL_AUTHORIZER,
    "kafka.security.auth.SimpleAclAuthorizer": ACL_AUTHORIZER,
}
"""The authorizer for each of Kafka's class names: all of them apply the same rules."""


class Endpoint(NamedTuple):
    """One listener: its name, the address that it binds or advertises, and its security protocol, which `endpoints`
    does not set (see `BrokerConfig.security_protocol`).
    """

    name: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        return f"{self.name}://{addresses.host_and_port(self.host, self.port)}"


class HttpEndpoint(Endpoint):
    """The endpoint of `ottla.http.listener`. As text it is HOST:PORT, with TLS https://HOST:PORT."""

    __slots__ = ()

    def __str__(self) -> str:
        address = super().__str__().partition("://")[2]
        return f"https://{address}" if self.protocol == "SSL" else address


class Principals(tuple[str, ...]):
    """Principals. As text they are separated by semicolons, because names in certificates have commas."""

    __slots__ = ()

    def __str__(self) -> str:
        return ";".join(self)


def endpoints(value: Any) -> tuple[Endpoint, ...]:
    """Parse listeners: `NAME://host:port`, separated by commas. An empty host means all IPv4 interfaces. IPv6
    addresses are in brackets.
    """
    parsed = []
    for item in words()(value):
        name, separator, address = item.partition("://")
        host, colon, port = address.rpartition(":")
        if not separator or not colon or not port.lstrip("-").isdigit() or not 0 <= int(port) <= 65535:
            raise ValueError("expected NAME://host:port, several separated by commas; ports are from 0 to 65535")
        parsed.append(Endpoint(name.upper(), host.strip("[]"), int(port)))
    if len({e.name for e in parsed}) < len(parsed):
        raise ValueError("each listener needs a unique name")
    return tuple(parsed)


def http_address(value: Any) -> Endpoint | None:
    """Parse `HOST:PORT`, optionally with http:// or https:// before it; an empty text turns the listener off."""
    if isinstance(value, Endpoint):
        return value
    word = text(value).strip()
    if not word:
        return None
    scheme, _, address = word.rpartition("://")
    host, colon, port = address.removesuffix("/").rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535 or scheme.lower() not in ("", "http", "https"):
        raise ValueError("expected HOST:PORT or https://HOST:PORT")
    return HttpEndpoint("HTTP", host.strip("[]"), int(port), "SSL" if scheme.lower() == "https" else "PLAINTEXT")


def passwords_by_user(value: Any) -> dict[str, str]:
    """Parse `USER:PASSWORD`, several separated by commas."""
    if isinstance(value, Mapping):
        return {str(user): str(password) for user, password in value.items()}
    pairs = [item.partition(":") for item in words()(value)]
    if any(not user or not password for user, _, password in pairs):
        raise ValueError("expected USER:PASSWORD, several separated by commas")
    return {user: password for user, _, password in pairs}


def listener_name(value: Any) -> str:
    """Parse a listener's name, and return it in upper case."""
    return text(value).upper()


def protocol_map(value: Any) -> dict[str, str]:
    """Parse `A:SSL,B:PLAINTEXT` into a mapping of listeners to security protocols."""
    if isinstance(value, Mapping):
        return {str(name): str(protocol) for name, protocol in value.items()}
    pairs = [item.partition(":") for item in words()(value)]
    if any(not separator for _, separator, _ in pairs):
        raise ValueError("expected NAME:PROTOCOL, several separated by commas")
    protocols = {name.strip().upper(): protocol.strip().upper() for name, _, protocol in pairs}
    unknown = sorted(set(protocols.values()).difference(NETWORK_PROTOCOLS))
    if unknown:
        raise ValueError(f"{', '.join(unknown)} is none of {', '.join(NETWORK_PROTOCOLS)}")
    return protocols


def limits_by_address(value: Any) -> dict[str, int]:
    """Parse `A:1,B:2` as numbers by IP address; host names are resolved, and IPv6 addresses may be in brackets."""
    if isinstance(value, dict):
        return {addresses.resolved(str(name)): int(limit) for name, limit in value.items()}
    pairs = [item.rpartition(":") for item in words()(value)]
    if any(not separator or not limit.strip().isdecimal() for _, separator, limit in pairs):
        raise ValueError("ADDRESS:NUMBER is expected, several with commas")
    return {addresses.resolved(name): int(limit) for name, _, limit in pairs}


def principals(value: Any) -> Principals:
    """Parse principals: `Type:name`, separated by semicolons."""
    parts = value.split(";") if isinstance(value, str) else list(value)
    names = tuple(part.strip() for part in parts if part.strip())
    for principal in names:
        kind, _, name = principal.partition(":")
        if not kind or not name or ",User:" in name.replace(" ", ""):
            raise ValueError("expected Type:name, such as User:admin, several separated by semicolons")
        if kind.lower() == "user" and kind != "User":
            raise ValueError(f"the type of a user is User, with a capital, not {kind}")
    return Principals(names)


class ListenerConfig(SslConfig, OAuthLoginConfig, OAuthCheckConfig):
    """Options of listeners and of their connections. A listener can have its own values: listener.name.NAME.*."""

    listeners = Option(
        endpoints("PLAINTEXT://127.0.0.1:9092"),
        endpoints,
        "Addresses on which the broker listens, as NAME://host:port, separated by commas; each name is in "
        "listener.security.protocol.map. An empty host: all IPv4 interfaces; port 0: any free port.",
    )
    advertised_listeners = Option[tuple[Endpoint, ...]](
        (),
        endpoints,
        "Addresses to which clients and other brokers connect, if they differ from listeners (NAT, containers, "
        "several networks), as NAME://host:port, separated by commas. A listener without one advertises its own "
        "address, or the machine's host name if it listens on all interfaces.",
    )
    listener_security_protocol_map = Option(
        {p: p for p in NETWORK_PROTOCOLS},
        protocol_map,
        "Security protocol of each listener, as NAME:PROTOCOL pairs separated by commas; it must include all names in "
        "listeners. Protocols: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL.",
    )
    inter_broker_listener_name = Option[str | None](
        None,
        nullable(listener_name),
        "Name of the listener for connections between brokers; not set: a listener with the protocol of "
        "security.inter.broker.protocol. Only one of the two configs can be set.",
    )
    security_inter_broker_protocol = Option(
        "PLAINTEXT",
        one_of(*NETWORK_PROTOCOLS),
        "Security protocol of connections between brokers; a broker of a cluster needs a listener with it. Cannot be "
        "set together with inter.broker.listener.name.",
    )
    apache_kafka_brokers_enable = Option(
        False,
        boolean,
        "Whether inter-broker requests are accepted on the inter-broker listener without proof that the sender is a "
        "broker of this cluster, because Apache Kafka's brokers send none. Required while such brokers are in the "
        "cluster, unless super.users or ACLs authorize them. With authorizer.class.name, the sender must be authorized "
        "for CLUSTER_ACTION in any case. Keep clients away from that listener then.",
    )
    authorizer_class_name = Option(
        "",
        one_of("", ACL_AUTHORIZER, aliases=AUTHORIZERS),
        "Authorizer that checks requests against ACLs: AclAuthorizer; the full class names of Kafka's "
        "StandardAuthorizer, AclAuthorizer and SimpleAclAuthorizer mean the same. Empty: no authorization, every "
        "client may do everything.",
    )
    super_users = Option[tuple[str, ...]](
        (),
        principals,
        "Principals that are authorized for everything, such as User:admin, separated by semicolons. No effect "
        "without authorizer.class.name.",
    )
    allow_everyone_if_no_acl_found = Option(
        False,
        boolean,
        "Whether every client is authorized for a resource that has no ACLs; if false, only super users are. No "
        "effect without authorizer.class.name.",
    )
    sasl_enabled_mechanisms = Option[tuple[str, ...]](
        ("GSSAPI",),
        words(),
        "SASL mechanisms to enable: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. A SASL listener needs one of "
        "them; GSSAPI (Kerberos), Kafka's default, is not supported.",
    )
    sasl_mechanism_inter_broker_protocol = Option(
        "GSSAPI",
        text,
        "SASL mechanism of connections between brokers, if the inter-broker listener uses SASL: PLAIN, SCRAM-SHA-256, "
        "SCRAM-SHA-512 or OAUTHBEARER. GSSAPI, the default as in Kafka, is not supported.",
    )
    sasl_server_max_receive_size = Option(
        524288, integer(1), "Maximum size in bytes of a request on a SASL connection that is not authenticated yet."
    )
    delegation_token_secret_key = Option[str | None](
        None,
        nullable(text),
        "Master key of delegation tokens, the same on all brokers. Not set: delegation.token.master.key applies; "
        "without either, the broker refuses delegation tokens.",
    )
    delegation_token_master_key = Option[str | None](
        None, nullable(text), "The older name of delegation.token.secret.key, which takes precedence if it is set."
    )
    delegation_token_max_lifetime_ms = Option(
        7 * DAY_MS,
        integer(1),
        "Maximum lifetime of a delegation token in milliseconds, renewals included; a client can request a shorter "
        "one.",
    )
    delegation_token_expiry_time_ms = Option(
        DAY_MS,
        integer(1),
        "Time in milliseconds after which a new delegation token expires unless it is renewed, and by which a renewal "
        "without a period extends it; delegation.token.max.lifetime.ms is the limit.",
    )
    delegation_token_expiry_check_interval_ms = Option(
        3_600_000,
        integer(1),
        "Interval in milliseconds at which the broker removes expired delegation tokens.",
    )
    connections_max_reauth_ms = Option(
        0,
        integer(0),
        "Time in milliseconds within which a SASL client has to authenticate again, at most the lifetime of its "
        "token; otherwise it is disconnected (KIP-368). 0: only when its token expires, or never without a token.",
    )
    connection_failed_authentication_delay_ms = Option(
        100,
        integer(0),
        "Delay in milliseconds before a failed SASL authentication is answered and the connection is closed.",
    )
    ssl_client_auth = Option(
        "none",
        one_of("none", "requested", "required"),
        "Whether clients of SSL listeners need a certificate: required, requested (optional) or none. For a SASL_SSL "
        "listener, only listener.name.NAME.ssl.client.auth applies.",
    )
    ssl_principal_mapping_rules = Option(
        "DEFAULT",
        principal_rules,
        "Rules, separated by commas, by which the name in a client's certificate becomes a user name; the first that "
        "matches applies, and without a match the connection is closed. DEFAULT: the whole name; "
        "RULE:pattern/replacement/ replaces a name that matches the regular expression, RULE:pattern/replacement/L or "
        "/U also converts it to lower or upper case.",
    )
    ottla_http_listener = Option[Endpoint | None](
        None,
        nullable(http_address),
        "HOST:PORT of the HTTP listener with metrics for Prometheus, health checks and the version; https://HOST:PORT: "
        "with TLS, by ssl.* or listener.name.http.ssl.*. Not set: off; `ottla broker` without a file: 127.0.0.1:9644.",
    )
    ottla_http_passwords = Option[dict[str, str]](
        {},
        passwords_by_user,
        "USER:PASSWORD pairs for the HTTP listener (basic authentication), separated by commas; /healthz and /readyz "
        "need no password. Empty: no authentication, which is refused if other machines can reach the listener and it "
        "has no TLS.",
    )
    socket_request_max_bytes = Option(
        104857600,
        integer(1),
        "Maximum size in bytes of a request; a client that sends a larger one is disconnected. Before SASL "
        "authentication, sasl.server.max.receive.size applies.",
    )
    socket_send_buffer_bytes = Option(
        102400,
        integer(-1),
        "Size in bytes of the send buffer (SO_SNDBUF) of connections that the broker accepts; -1 or 0: the system's "
        "default.",
    )
    socket_receive_buffer_bytes = Option(
        102400,
        integer(-1),
        "Size in bytes of the receive buffer (SO_RCVBUF) of connections that the broker accepts; -1 or 0: the "
        "system's default.",
    )
    socket_listen_backlog_size = Option(
        50,
        integer(1),
        "Maximum number of connections that wait to be accepted, for each listener; the operating system may limit it "
        "further.",
    )
    max_connections = Option(
        INT_MAX,
        integer(0),
        "Maximum number of connections of the broker; further ones wait until others are closed. If there are several "
        "listeners, the inter-broker listener accepts connections beyond this limit, and for each of them the least "
        "recently used client connection is closed. listener.name.NAME.max.connections limits a listener in addition.",
    )
    max_connections_per_ip = Option(
        INT_MAX, integer(0), "Maximum number of connections from one IP address; further ones are closed at once."
    )
    max_connections_per_ip_overrides = Option(
        dict[str, int](),
        limits_by_address,
        "Maximum numbers of connections from individual addresses, which override max.connections.per.ip: "
        "ADDRESS:NUMBER pairs, separated by commas.",
    )
    max_connection_creation_rate = Option(
        INT_MAX,
        integer(0),
        "Maximum number of new connections per second; further ones wait. If there are several listeners, it does not "
        "apply to the inter-broker listener. listener.name.NAME.max.connection.creation.rate limits a listener in "
        "addition.",
    )
    queued_max_request_bytes = Option(
        -1,
        integer(-1),
        "Approximate maximum memory in bytes for requests above 64 KiB that are received or processed; further ones "
        "wait. Must be at least socket.request.max.bytes; -1 or 0: no limit.",
    )
    connections_max_idle_ms = Option(
        600000,
        integer(-1),
        "Time in milliseconds after which the broker closes an idle connection of a client or another broker; -1: "
        "never.",
    )

    def check(self) -> None:
        """Raise ConfigurationError if there is no listener, an advertised listener has no address to which clients can
        connect, or options of listeners do not match.
        """
        super().check()
        if not self.listeners:
            raise ConfigurationError("listeners: at least one is needed, such as PLAINTEXT://127.0.0.1:9092")
        for endpoint in (*self.listeners, *self.advertised_listeners):
            if self.security_protocol(endpoint.name).startswith("SASL"):
                self._check_mechanisms(endpoint.name)
        unknown = {e.name for e in self.advertised_listeners} - {e.name for e in self.listeners}
        if unknown:
            raise ConfigurationError(f"advertised.listeners: {', '.join(sorted(unknown))} is not among listeners")
        if 0 < self.queued_max_request_bytes < self.socket_request_max_bytes:
            raise ConfigurationError(
                f"queued.max.request.bytes: {self.queued_max_request_bytes} is less than socket.request.max.bytes "
                f"({self.socket_request_max_bytes}), so the largest request could not be received"
            )
        if any(e.host in ("", "0.0.0.0", "::") for e in self.advertised_listeners):
            raise ConfigurationError("advertised.listeners: a client cannot connect to 0.0.0.0; name a host")
        self._check_http_listener()

    def _check_http_listener(self) -> None:
        endpoint = self.ottla_http_listener
        if endpoint is None or endpoint.protocol == "SSL" or self.ottla_http_passwords:
            return
        if not addresses.is_loopback(endpoint.host):
            raise ConfigurationError(
                f"ottla.http.listener: other machines can reach {endpoint.host or '0.0.0.0'}:{endpoint.port}; "
                "use https://, set ottla.http.passwords, or listen on 127.0.0.1"
            )

    def _check_mechanisms(self, listener: str) -> None:
        wrong = [name for name in self.mechanisms(listener) if name not in MECHANISMS]
        if wrong or not self.mechanisms(listener):
            problem = f"{', '.join(wrong)} is not supported" if wrong else "no mechanism is enabled"
            raise ConfigurationError(
                f"sasl.enabled.mechanisms: {problem} on listener {listener}, which uses SASL; use one of "
                f"{', '.join(MECHANISMS)}"
            )
        if "PLAIN" in self.mechanisms(listener):
            self.passwords(listener)
        if "OAUTHBEARER" in self.mechanisms(listener):
            self.oauth_of(listener)

    def security_protocol(self, listener: str) -> str:
        """Return the security protocol of the listener with this name. Raises ConfigurationError if
        listener.security.protocol.map does not contain it.
        """
        mapping = self.listener_security_protocol_map
        if listener not in mapping:
            raise ConfigurationError(f"listener.security.protocol.map: listener {listener} is not in it")
        return mapping[listener]

    def of_listener(self, listener: str, option: str) -> str | None:
        """Return a config that is set for one listener, `listener.name.<name>.<option>`, or None."""
        value = self.originals.get(f"listener.name.{listener.lower()}.{option}")
        return None if value is None else str(value)

    def on_listener(self, listener: str, option: str) -> Any:
        """Return a config's value for one listener: its own value, else the common one. Raises ConfigurationError,
        which names the config, for an invalid value of the listener.
        """
        own = self.of_listener(listener, option)
        return self.values[option] if own is None else self.options[option].read(own)

    def tls_of(self, listener: str) -> TlsConfig:
        """Return the TLS configs of one listener: its own ones, else the common ones."""
        own = {key: self.of_listener(listener, key) for key in SslConfig.options}
        common = {key: self.originals[key] for key in SslConfig.options if key in self.originals}
        return TlsConfig({**common, **{key: value for key, value in own.items() if value is not None}})

    def client_auth(self, listener: str) -> str:
        """Return ssl.client.auth of a listener; for a SASL_SSL listener, only its own config counts."""
        option = "ssl.client.auth"
        if self.security_protocol(listener) == "SASL_SSL" and self.of_listener(listener, option) is None:
            return "none"  # KIP-684
        return str(self.on_listener(listener, option))

    def mechanisms(self, listener: str) -> tuple[str, ...]:
        """Return the SASL mechanisms that a listener offers."""
        names: tuple[str, ...] = self.on_listener(listener, "sasl.enabled.mechanisms")
        return names

    def first_request_bytes(self, listener: str) -> int:
        """Return the maximum size in bytes of requests on a new connection: sasl.server.max.receive.size until
        authentication if the listener uses SASL, otherwise socket.request.max.bytes.
        """
        without_sasl = not self.security_protocol(listener).startswith("SASL")
        return self.socket_request_max_bytes if without_sasl else self.sasl_server_max_receive_size

    def max_reauth_ms(self, listener: str, mechanism: str) -> int:
        """Return connections.max.reauth.ms of a mechanism on a listener: the maximum time in milliseconds until a
        client must authenticate again. A token may expire earlier; with 0, only that limits the time.
        """
        option = "connections.max.reauth.ms"
        own = self.of_listener(listener, f"{mechanism.lower()}.{option}")
        return int(self.on_listener(listener, option) if own is None else self.options[option].read(own))

    def passwords(self, listener: str) -> dict[str, str]:
        """Return the users and passwords of PLAIN on a listener, from its JAAS config: `user_<name>="<password>"`."""
        login = self._jaas(listener, "PLAIN")
        if login.module != PLAIN_MODULE:
            raise ConfigurationError(f"{_jaas_option(listener, 'PLAIN')}: expected …{PLAIN_MODULE}, not {login.module}")
        return {name[5:]: password for name, password in login.options.items() if name.startswith("user_")}

    def oauth_of(self, listener: str) -> OAuthCheckConfig:
        """Return the configs by which a listener validates tokens: its own ones, else those of all listeners."""
        own = {key: self.of_listener(listener, key) for key in OAuthCheckConfig.options}
        common = {key: self.originals[key] for key in OAuthCheckConfig.options if key in self.originals}
        return OAuthCheckConfig({**common, **{key: value for key, value in own.items() if value is not None}})

    def oauth_jaas(self, listener: str) -> Jaas:
        """Return a listener's JAAS config for OAUTHBEARER, which also has the settings of this broker's own unsecured
        tokens.
        """
        login = self._jaas(listener, "OAUTHBEARER")
        if login.module != OAUTH_MODULE:
            raise ConfigurationError(
                f"{_jaas_option(listener, 'OAUTHBEARER')}: expected …{OAUTH_MODULE}, not {login.module}"
            )
        return login

    def jwks_endpoint_jaas(self, listener: str) -> Mapping[str, str]:
        """Return the options of a listener's JAAS config for OAUTHBEARER, which may have ssl options for
        sasl.oauthbearer.jwks.endpoint.url; empty if there is none, as signed tokens do not require it.
        """
        return self.oauth_jaas(listener).options if _jaas_option(listener, "OAUTHBEARER") in self.originals else {}

    def broker_login(self) -> tuple[str, Mapping[str, str]]:
        """Return the SASL mechanism for connections to other brokers, and the options of its JAAS config. Raises
        ConfigurationError if the mechanism is not enabled on the inter-broker listener, or if its JAAS config is
        missing, malformed or without credentials.
        """
        listener, mechanism = self.inter_broker_listener, self.sasl_mechanism_inter_broker_protocol
        assert listener is not None
        if mechanism not in self.mechanisms(listener.name):
            offered = ", ".join(self.mechanisms(listener.name))
            raise ConfigurationError(
                f"sasl.mechanism.inter.broker.protocol: {mechanism} is not enabled on the inter-broker listener "
                f"{listener.name}; use one of {offered}"
            )
        options = self._jaas(listener.name, mechanism).options
        if mechanism != "OAUTHBEARER" and not {"username", "password"} <= options.keys():
            option = _jaas_option(listener.name, mechanism)
            raise ConfigurationError(
                f'{option}: username="…" and password="…" are required, to log in to other brokers'
            )
        return mechanism, options

    def _jaas(self, listener: str, mechanism: str) -> Jaas:
        option = _jaas_option(listener, mechanism)
        line = self.originals.get(option)
        if line is None:
            raise ConfigurationError(f"{option} is required: …{MODULES[mechanism]};")
        try:
            return jaas(line)
        except ValueError as error:
            raise ConfigurationError(f"{option}: {error}") from None

    @property
    def inter_broker_protocol(self) -> str:
        """The security protocol of connections between brokers."""
        listener = self.inter_broker_listener
        return self.security_inter_broker_protocol if listener is None else self.security_protocol(listener.name)

    @property
    def inter_broker_listener(self) -> Endpoint | None:
        """The listener for connections between brokers: that of inter.broker.listener.name or, if that is not set, one
        with security.inter.broker.protocol. None if there is no such listener.
        """
        name, protocol = self.inter_broker_listener_name, self.security_inter_broker_protocol
        if name is not None:
            return next((e for e in self.listeners if e.name == name), None)
        speaking = [e for e in self.listeners if self.security_protocol(e.name) == protocol]
        return next((e for e in speaking if e.name == protocol), next(iter(speaking), None))

    @property
    def delegation_token_key(self) -> bytes:
        """The master key of delegation tokens by either of its two names; empty: no delegation tokens."""
        return (self.delegation_token_secret_key or self.delegation_token_master_key or "").encode()


def _jaas_option(listener: str, mechanism: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
