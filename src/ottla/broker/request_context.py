"""The context of a request: its client, version and connection, with authorization and throttling."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ottla import errors
from ottla.broker.broker_context import BrokerContext
from ottla.broker.quotas.client_quotas import ANONYMOUS
from ottla.cluster.interbroker.membership_proof import MEMBER
from ottla.logs import RateLimitFilter
from ottla.model import ACLOperation
from ottla.net.server.connection import USER, Connection
from ottla.security.acl import (
    ANY_CONNECTION,
    CLUSTER_NAME,
    PLACEHOLDER,
    ResourceType,
    allowing_command,
    producer_command,
)
from ottla.security.authorizer import AuthorizableClient

log = logging.getLogger("ottla.authorizer")
log.addFilter(RateLimitFilter(per_window=5, key=lambda record: f"{record.msg} {record.args}"))
log.addFilter(RateLimitFilter(per_window=200))
changes_log = logging.getLogger("ottla.changes")
offsets_log = logging.getLogger("ottla.changes.offsets")
offsets_log.addFilter(RateLimitFilter())
transactions_log = logging.getLogger("ottla.coordinator.transaction")
transactions_log.addFilter(RateLimitFilter())
broker_log = logging.getLogger("ottla.broker.refused")
broker_log.addFilter(RateLimitFilter())
rejected_log = logging.getLogger("ottla.request.rejected")
rejected_log.addFilter(RateLimitFilter(per_window=1, key=lambda record: str(tuple(record.args or ())[:-1])))
rejected_log.addFilter(RateLimitFilter(per_window=200))

MAX_LOGGED_DENIALS = 100
"""Maximum number of denials of one request that are logged one by one. Each takes some 20 µs."""
MAX_THROTTLE_MS = 2**31 - 1
"""The largest value of `throttle_time_ms` in a response."""
AUTHORIZATION_ERRORS: dict[ResourceType, type[errors.KafkaError]] = {
    ResourceType.TOPIC: errors.TopicAuthorizationFailedError,
    ResourceType.GROUP: errors.GroupAuthorizationFailedError,
    ResourceType.CLUSTER: errors.ClusterAuthorizationFailedError,
    ResourceType.TRANSACTIONAL_ID: errors.TransactionalIdAuthorizationFailedError,
    ResourceType.DELEGATION_TOKEN: errors.DelegationTokenAuthorizationFailedError,
    ResourceType.USER: errors.DelegationTokenAuthorizationFailedError,
}
"""The error of an unauthorized operation, by the type of its resource."""
NO_ERRORS: Mapping[str, errors.KafkaError] = MappingProxyType({})


@dataclass(slots=True)
class RequestContext:
    """One request: its client, API version and connection, and the broker that answers it."""

    broker: BrokerContext
    connection: Connection
    version: int
    client_id: str

    @property
    def user(self) -> str:
        """The user that was authenticated by SASL or by a TLS certificate; ANONYMOUS without authentication."""
        return str(self.connection.state.get(USER, ANONYMOUS))

    @property
    def client(self) -> AuthorizableClient:
        """The client's principal and host, as ACLs name them."""
        return AuthorizableClient(f"User:{self.user}", self.connection.peer.rpartition(":")[0])

    @property
    def by(self) -> str:
        """The client's principal, host and client id, as a suffix of log lines about its requests."""
        client = self.client
        return f" (requested by {client.principal} from {client.host}, client_id={self.client_id})"

    def log_change(self, message: str, *args: object) -> None:
        """Log a change of configs, ACLs, users etc. that the client has made."""
        changes_log.info(f"{message}%s", *args, self.by)

    def log_offset_change(self, message: str, *args: object) -> None:
        """Log committed offsets that a client has changed without being a member of the group.

        Rate-limited: a program that assigns itself partitions may commit all the time.
        """
        offsets_log.info(f"{message}%s", *args, self.by)

    def log_producer(self, transactional_id: str, producer_id: int, epoch: int, timeout_ms: int) -> None:
        """Log which client uses a transactional id from now on.

        Other clients with this id are fenced, and an open transaction of this client holds up `read_committed`
        consumers. Rate-limited, because a client may initialize its id for each transaction.
        """
        text = "Initialized transactional_id=%s: producer_id=%d epoch=%d transaction_timeout_ms=%d%s"
        transactions_log.info(text, transactional_id, producer_id, epoch, timeout_ms, self.by)

    def log_rejection(self, resource: object, error: errors.KafkaError) -> None:
        """Log that a batch of the client was rejected, because it is invalid or cannot be replicated.

        Rate-limited by resource, error and client.
        """
        name = errors.for_code(errors.code_of(error)).name
        rejected_log.info("Rejected a batch for %s%s with %s: %s", resource, self.by, name, error.message)

    @property
    def is_broker(self) -> bool:
        """Whether the client is accepted as a broker of this cluster, which may send inter-broker requests.

        Always False on a standalone broker. With an authorizer, the client's principal needs CLUSTER_ACTION, by an ACL
        or as a super user. Without one, or if only `allow.everyone.if.no.acl.found` allows it, the connection must have
        proved that it knows the cluster's secret. Brokers of Apache Kafka cannot prove this;
        `apache.kafka.brokers.enable` accepts them on the inter-broker listener.
        """
        broker, connection = self.broker, self.connection
        if not broker.in_cluster:
            return False
        authorizer = broker.authorizer
        if authorizer is not None:
            action = self.client, ACLOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
            if not authorizer.allows(*action):
                return False
            if not authorizer.allows_by_default(*action):
                return True
        if MEMBER in connection.state:
            return True
        own = broker.config.inter_broker_listener
        return broker.config.apache_kafka_brokers_enable and own is not None and own.name == connection.listener.name

    def require_broker(self) -> None:
        """Raise ClusterAuthorizationFailedError unless the client is accepted as a broker of this cluster (see
        `is_broker`).
        """
        if self.is_broker:
            return
        if self.broker.authorizer is None:
            broker_log.warning(
                "Rejected an inter-broker request from %s: the client has not proved that it is a broker of this "
                "cluster. If it is a broker of Apache Kafka, set apache.kafka.brokers.enable=true on this broker, and "
                "connect the other one to this broker's inter-broker listener.",
                self.connection.peer,
            )
        raise self.deny(ACLOperation.CLUSTER_ACTION, ResourceType.CLUSTER)

    def allows(self, operation: ACLOperation, kind: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Return whether the client is authorized.

        Denials are not logged: use this method for resources that a response omits.
        """
        authorizer = self.broker.authorizer
        if authorizer is None:
            return True
        client = self.client
        allowed = authorizer.allows(client, operation, kind, name)
        if allowed and log.isEnabledFor(logging.DEBUG):
            log.debug("Allowed %s on %s %s to %s from %s", operation.name, kind.name, name, *client)
        return allowed

    def allows_some(self, operation: ACLOperation, kind: ResourceType) -> bool:
        """Return whether the client may be authorized for some resource of this type."""
        authorizer = self.broker.authorizer
        return authorizer is None or authorizer.allows_some(self.client, operation, kind)

    def require(self, operation: ACLOperation, kind: ResourceType, name: str = CLUSTER_NAME) -> None:
        """Raise the authorization error of the resource's type unless the client is authorized."""
        if self.broker.authorizer is None:
            return
        error = self.authorization_error(operation, kind, name)
        if error is not None:
            raise error

    def authorization_error(
        self, operation: ACLOperation, kind: ResourceType, name: str = CLUSTER_NAME
    ) -> errors.KafkaError | None:
        """Return None if the client is authorized; otherwise log the denial and return its error."""
        return None if self.allows(operation, kind, name) else self.deny(operation, kind, name)

    def unauthorized_errors(
        self, operation: ACLOperation, kind: ResourceType, names: Iterable[str]
    ) -> Mapping[str, errors.KafkaError]:
        """Log the denials, and return the errors of those resources that the client is not authorized for, by name.

        After MAX_LOGGED_DENIALS, only the number of the others is logged: a request may name 20,000.
        """
        if self.broker.authorizer is None:
            return NO_ERRORS
        unauthorized = list(self.unauthorized(operation, kind, names))
        denied = {name: self.deny(operation, kind, name) for name in unauthorized[:MAX_LOGGED_DENIALS]}
        others = unauthorized[MAX_LOGGED_DENIALS:]
        if others:
            log.info(
                "Denied %s on %d more resources of type %s to %s from %s",
                operation.name,
                len(others),
                kind.name,
                *self.client,
            )
            one = denied[unauthorized[0]]  # the errors are alike: they do not contain the name
            denied |= {name: type(one)(one.message) for name in others}
        return denied

    def unauthorized(self, operation: ACLOperation, kind: ResourceType, names: Iterable[str]) -> Collection[str]:
        """Return the names of those resources that the client is not authorized for. Denials are not logged."""
        authorizer = self.broker.authorizer
        if authorizer is None:
            return NO_ERRORS
        client = self.client
        return {name for name in set(names) if not authorizer.allows(client, operation, kind, name)}

    def deny(self, operation: ACLOperation, kind: ResourceType, name: str = CLUSTER_NAME) -> errors.KafkaError:
        """Log the denial of an operation, and return the authorization error of the resource's type."""
        client = self.client
        connection = self._tool_connection()
        command = allowing_command(client.principal, operation, kind, name, connection)
        if operation is ACLOperation.IDEMPOTENT_WRITE:  # WRITE on any topic is enough
            command = f"{producer_command(client.principal, PLACEHOLDER, connection)} (or {command})"
        log.info(
            "Denied %s on %s %s to %s from %s; to allow it: %s",
            operation.name,
            kind.name,
            name,
            *client,
            command,
        )
        # without the name: a client that names a topic by its id must not learn the name from the error
        general = allowing_command(client.principal, operation, kind, PLACEHOLDER, connection)
        return AUTHORIZATION_ERRORS[kind](
            f"{client.principal} is not authorized: {operation.name} on {kind.name} is required ({general})"
        )

    def _tool_connection(self) -> Sequence[str]:
        """Return the options with which a tool connects to the listener of this client."""
        broker, name = self.broker, self.connection.listener.name
        own = broker.image.brokers.get(broker.broker_id)
        endpoint = None if own is None else next((e for e in own.endpoints if e.name == name), None)
        if endpoint is None:
            return ANY_CONNECTION
        credentials = () if endpoint.protocol == "PLAINTEXT" else ("--command-config", "FILE")
        return ("--bootstrap-server", str(endpoint).partition("://")[2], *credentials)

    def throttle(self, seconds: float) -> int:
        """Stop reading from the connection for `seconds` after the response.

        Returns the time in milliseconds, at most MAX_THROTTLE_MS.
        """
        if seconds > 0:
            self.connection.throttle(seconds)
        return min(round(seconds * 1000), MAX_THROTTLE_MS)
