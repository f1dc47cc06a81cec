"""The properties file of MirrorMaker 2: clusters, the flows between them, and the configs of their clients."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from ottla.config.admin import AdminConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.mirror import IDENTITY, MirrorConfig
from ottla.config.options import nearest, words
from ottla.config.producer import ProducerConfig
from ottla.errors import ConfigurationError

ROLES: Final = {"consumer": ConsumerConfig, "producer": ProducerConfig, "admin": AdminConfig}
"""The kinds of clients and their configs. A kind is also a prefix of config names, such as `consumer.`."""
ROLE_PREFIXES: Final = tuple(f"{role}." for role in ROLES)
ENDS: Final = ("source", "target")
SHARED: Final = ("security.", "ssl.", "sasl.", "bootstrap.servers", "client.dns.lookup", "client.rack")
"""Prefixes of client configs that may be set for all clusters. Those with the alias of a cluster take precedence."""


class FlowName(NamedTuple):
    """A flow from one cluster to another, by their aliases."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


class Flow(NamedTuple):
    """A flow with its options. If `config.enabled` is false, the flow at most emits heartbeats."""

    name: FlowName
    config: MirrorConfig


class MirrorProperties:
    """The properties in a file of MirrorMaker 2. Options of one flow (`A->B.topics`) take precedence over those of all
    flows (`topics`).

    Raises ConfigurationError if `clusters` names fewer than two aliases, or one of them twice, if an option names a
    flow that does not exist, or if a cluster has no `bootstrap.servers`.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        self.clusters = words()(properties.get("clusters", ""))
        if len(set(self.clusters)) < 2 or len(set(self.clusters)) != len(self.clusters):
            raise ConfigurationError("clusters: expected at least two different aliases, such as clusters = A, B")
        self._check_flow_names()
        self._check_names()
        for alias in self.clusters:
            if not self.client_configs("admin", alias).get("bootstrap.servers"):
                raise ConfigurationError(f"{alias}.bootstrap.servers is required: the brokers of cluster {alias}")

    def flows(self, targets: Collection[str] = ()) -> list[Flow]:
        """Return the flows to these targets (default: all) that are enabled or have heartbeats.

        Raises ConfigurationError if a target is unknown, if an option of any flow to these targets is invalid, if none
        of the flows is enabled, or if enabled flows with IdentityReplicationPolicy and the same `topics` form a loop.
        """
        for alias in targets:
            if alias not in self.clusters:
                raise ConfigurationError(f"--clusters: {alias!r} is none of clusters = {', '.join(self.clusters)}")
        flows = [Flow(name, self._config(name)) for name in self._pairs() if not targets or name.target in targets]
        flows = [flow for flow in flows if flow.config.enabled or flow.config.emit_heartbeats_enabled]
        if not any(flow.config.enabled for flow in flows):
            examples = ", ".join(f"{name}.enabled=true" for name in self._pairs())
            raise ConfigurationError(f"no flow is enabled; set one of {examples}")
        _check_loops(flows)
        return flows

    def client_configs(self, role: str, alias: str, flow: FlowName | None = None) -> dict[str, Any]:
        """Return the configs of a client of a cluster. `role`: consumer, producer or admin.

        With `flow`, they include those of this flow, which take precedence.
        """
        options = ROLES[role].options
        configs = {k: v for k, v in self._properties.items() if k.startswith(SHARED) and k in options}
        of_cluster = self._with_prefix(f"{alias}.")
        configs |= {k: v for k, v in of_cluster.items() if k in options and not k.startswith(ROLE_PREFIXES)}
        configs |= self._with_prefix(f"{alias}.{role}.")
        if flow is not None:
            end = "source" if alias == flow.source else "target"
            configs |= self._with_prefix(f"{flow}.{role}.") | self._with_prefix(f"{flow}.{end}.{role}.")
        configs.setdefault("client.id", f"mirror-maker-{flow or alias}-{role}".replace("->", "-to-"))
        return configs

    def _pairs(self) -> list[FlowName]:
        return [FlowName(a, b) for a in self.clusters for b in self.clusters if a != b]

    def _with_prefix(self, prefix: str) -> dict[str, str]:
        return {k.removeprefix(prefix): v for k, v in self._properties.items() if k.startswith(prefix)}

    def _config(self, name: FlowName) -> MirrorConfig:
        """Return the options of a flow. The names of the options of Connect's workers may begin with the alias of the
        target, such as `B.offset.storage.topic`.
        """
        top = {k: v for k, v in self._properties.items() if k in MirrorConfig.options and k != "enabled"}
        of_target = {k: v for k, v in self._with_prefix(f"{name.target}.").items() if k.startswith(WORKER)}
        own = {k: v for k, v in self._with_prefix(f"{name}.").items() if not k.startswith((*ROLE_PREFIXES, *ENDS))}
        return MirrorConfig.from_kafka({**top, **of_target, **own})

    def _check_names(self) -> None:
        """Log warnings for options that are unknown or have no effect. Options of one flow or cluster, and of clients,
        are not checked.
        """
        prefixes = (*(f"{alias}." for alias in self.clusters), *ROLE_PREFIXES, *SHARED)
        names = (key for key in self._properties if key != "clusters" and "->" not in key)
        MirrorConfig.check_names(key for key in names if not key.startswith(prefixes))

    def _check_flow_names(self) -> None:
        """Raise ConfigurationError if an option names a flow that does not exist: it would have no effect."""
        for key in self._properties:
            source, arrow, rest = key.partition("->")
            if not arrow:
                continue
            names = [str(name) for name in self._pairs()]
            if not any(key.startswith(f"{name}.") for name in names):
                name = f"{source}->{rest.partition('.')[0]}"
                raise ConfigurationError(f"{key}: there is no flow {name}{nearest(name, names)}")


WORKER: Final = ("offset.storage.", "exactly.once.source.support")
"""Options of Connect's workers, by prefix. In Kafka, these workers belong to the target."""


def _check_loops(flows: list[Flow]) -> None:
    """Raise ConfigurationError if enabled flows with the identity policy and the same `topics` form a loop.

    The policy does not keep records from being copied endlessly, because the copy of a topic has the same name.
    """
    identity = [f for f in flows if f.config.enabled and f.config.replication_policy_class == IDENTITY]
    for flow in identity:
        alike = {f.name for f in identity if f.config.topics == flow.config.topics}
        reached, ahead = set[str](), [flow.name.target]
        while ahead:
            alias = ahead.pop()
            if alias not in reached:
                reached.add(alias)
                ahead += [name.target for name in alike if name.source == alias]
        if flow.name.source in reached:
            raise ConfigurationError(
                f"{flow.name}: with IdentityReplicationPolicy records of the same topics would be copied in a circle; "
                "use DefaultReplicationPolicy, or different topics for each direction"
            )
