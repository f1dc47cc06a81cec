"""Every path in the store and the JSON kept there, as Kafka 0.8 to 3.9 lay them out in ZooKeeper."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import UUID

from ottla.clock import now_ms
from ottla.cluster.store import config_entities
from ottla.cluster.store.metadata_store import UnreadableNodeError
from ottla.errors import InvalidTopicError
from ottla.model import ACLOperation
from ottla.names import check_topic_name
from ottla.security.acl import ACL, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CLUSTER_ID: Final = "/cluster/id"
CLUSTER_SECRET: Final = "/cluster/secret"
TOPIC_OPTIONS: Final = "topics"
CONFIG_TOPICS: Final = f"/config/{TOPIC_OPTIONS}"
CONFIG_CHANGES: Final = "/config/changes"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
PRODUCER_ID_BLOCK_SIZE: Final = 1000
DELETE_TOPICS: Final = "/admin/delete_topics"
CONSUMERS: Final = "/consumers"
FEATURE: Final = "/feature"
SEQUENCE_IDS: Final = "/brokers/seqid"
ISR_CHANGES: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
REASSIGN: Final = "/admin/reassign_partitions"
PREFERRED_ELECTION: Final = "/admin/preferred_replica_election"

PERSISTENT: Final = (
    "/admin",
    DELETE_TOPICS,
    "/brokers",
    BROKER_IDS,
    TOPICS,
    SEQUENCE_IDS,
    "/cluster",
    "/config",
    *(f"/config/{kind}" for kind in config_entities.TYPES),
    CONFIG_CHANGES,
    CONFIG_TOPICS,
    CONSUMERS,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
)
"""Nodes that exist in every cluster, parents before their children."""

ACLS: Final = {
    ACLResourcePatternType.LITERAL: "/kafka-acl",
    ACLResourcePatternType.PREFIXED: "/kafka-acl-extended/prefixed",
}
"""The parents of access rules, by how these name their resources."""
ACL_CHANGES: Final = {
    ACLResourcePatternType.LITERAL: "/kafka-acl-changes",
    ACLResourcePatternType.PREFIXED: "/kafka-acl-extended-changes",
}
"""Where it is noted that rules are others now."""
ACL_KINDS: Final[Mapping[ResourceType, str]] = {
    kind: "".join(word.capitalize() for word in kind.name.split("_"))
    for kind in ResourceType
    if kind not in (ResourceType.UNKNOWN, ResourceType.ANY)
}
"""How nodes name the types of resources: TransactionalId."""
ACL_NODES: Final = (
    "/kafka-acl-extended",
    *(f"{parent}{below}" for parent in ACLS.values() for below in ("", "/Topic", "/Group", "/Cluster")),
    *ACL_CHANGES.values(),
)
"""Nodes that exist where access rules are kept, parents before their children.

Other types of resources have theirs from the first rule on: tools of Kafka 0.9 to 1 fail where they see a type that
they do not know.
"""


def broker(broker_id: int) -> str:
    """A live broker."""
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    """A topic's replica assignment."""
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    """The parent of a topic's partitions."""
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, index: int) -> str:
    """The parent of a partition's state."""
    return f"{TOPICS}/{name}/partitions/{index}"


def partition_state(name: str, index: int) -> str:
    """Who leads a partition, and who is in sync."""
    return f"{TOPICS}/{name}/partitions/{index}/state"


def config_topic(name: str) -> str:
    """Options set on a topic."""
    return f"{CONFIG_TOPICS}/{name}"


def config_entity(path: str) -> str:
    """Options set on anything else: see `entities`."""
    return f"/config/{path}"


def delete_topic(name: str) -> str:
    """Says that a topic is to be deleted."""
    return f"{DELETE_TOPICS}/{name}"


def consumer_ids(group: str) -> str:
    """The parent of a 0.8 group's members."""
    return f"{CONSUMERS}/{group}/ids"


def consumer_id(group: str, member: str) -> str:
    """A member of a 0.8 group: what it subscribes to."""
    return f"{CONSUMERS}/{group}/ids/{member}"


def consumer_owners(group: str, name: str) -> str:
    """The parent of the owners of a topic's partitions."""
    return f"{CONSUMERS}/{group}/owners/{name}"


def consumer_owner(group: str, name: str, index: int) -> str:
    """Which thread of which member reads a partition."""
    return f"{CONSUMERS}/{group}/owners/{name}/{index}"


def consumer_offset(group: str, name: str, index: int) -> str:
    """How far a group of 0.8 has read a partition."""
    return f"{CONSUMERS}/{group}/offsets/{name}/{index}"


def is_secret(path: str) -> bool:
    """Whether a node may hold passwords: nobody but the brokers is to read it."""
    return path.startswith((f"/config/{config_entities.USERS}", f"/config/{config_entities.BROKERS}", CLUSTER_SECRET))


def secret_value(secret: bytes) -> bytes:
    """`/cluster/secret`."""
    return dump({"version": 1, "secret": base64.b64encode(secret).decode()})


def secret_of(raw: bytes) -> bytes:
    """The secret in `/cluster/secret`; empty if there is none."""
    try:
        return base64.b64decode(load(raw)["secret"], validate=True)
    except (ValueError, KeyError, TypeError):
        return b""


def is_open(path: str) -> bool:
    """Whether clients write here: the consumers of 0.8."""
    return path.startswith(CONSUMERS)


def now() -> str:
    """The time as nodes carry it: milliseconds since 1970, as text."""
    return str(now_ms())


def dump(value: Mapping[str, Any]) -> bytes:
    """JSON as Kafka writes it: no blanks."""
    return json.dumps(value, separators=(",", ":")).encode()


def load(raw: bytes) -> dict[str, Any]:
    """The JSON of a node."""
    value: dict[str, Any] = json.loads(raw)
    return value


def topic_value(
    topic_id: UUID,
    assignment: Sequence[Sequence[int]],
    adding: Mapping[int, Sequence[int]] = MappingProxyType({}),
    removing: Mapping[int, Sequence[int]] = MappingProxyType({}),
) -> bytes:
    """`/brokers/topics/T`."""
    return dump(
        {
            "removing_replicas": {str(p): list(replicas) for p, replicas in sorted(removing.items())},
            "partitions": {str(p): list(replicas) for p, replicas in enumerate(assignment)},
            "topic_id": uuid_text(topic_id),
            "adding_replicas": {str(p): list(replicas) for p, replicas in sorted(adding.items())},
            "version": 3,
        }
    )


class TopicLayout(NamedTuple):
    """What `/brokers/topics/T` says: replicas by partition, and those that a reassignment brings and takes away."""

    id: UUID | None
    """Versions before 2.8 have not written it."""
    replicas: tuple[tuple[int, ...], ...]
    adding: Mapping[int, tuple[int, ...]]
    removing: Mapping[int, tuple[int, ...]]


def topic_layout(name: str, raw: bytes) -> TopicLayout:
    """Where a topic's replicas are. Raises UnreadableNodeError for what is no `/brokers/topics/T`."""
    try:
        check_topic_name(name)
        value = load(raw)
        replicas = _by_partition(value["partitions"])
        placed = tuple(replicas[index] for index in range(len(replicas)))
        if not placed or not all(placed):
            raise ValueError("no replicas")
        adding, removing = (_by_partition(value.get(key) or {}) for key in ("adding_replicas", "removing_replicas"))
        return TopicLayout(uuid_of(value["topic_id"]) if "topic_id" in value else None, placed, adding, removing)
    except (ValueError, KeyError, TypeError, AttributeError, InvalidTopicError) as error:
        raise UnreadableNodeError(f"{topic(name)} is no assignment of replicas: {raw[:200]!r}: {error}") from None


def _by_partition(value: Mapping[str, Sequence[int]]) -> dict[int, tuple[int, ...]]:
    return {int(p): tuple(map(int, replicas)) for p, replicas in value.items()}


def state_value(controller_epoch: int, leader: int, leader_epoch: int, isr: Sequence[int]) -> bytes:
    """`/brokers/topics/T/partitions/P/state`."""
    return dump(
        {
            "controller_epoch": controller_epoch,
            "leader": leader,
            "version": 1,
            "leader_epoch": leader_epoch,
            "isr": list(isr),
        }
    )


def producer_ids_value(broker_id: int, end: int) -> bytes:
    """`/latest_producer_id_block`: the block that was taken last, of which the last id comes before `end`."""
    start = max(0, end - PRODUCER_ID_BLOCK_SIZE)
    return dump({"version": 1, "broker": broker_id, "block_start": str(start), "block_end": str(end - 1)})


def request_value(partitions: Iterable[Mapping[str, Any]]) -> bytes:
    """`/admin/reassign_partitions`."""
    return dump({"version": 1, "partitions": list(partitions)})


def config_value(options: Mapping[str, str]) -> bytes:
    """`/config/topics/T` and its siblings."""
    return dump({"version": 1, "config": dict(options)})


def config_options(path: str, raw: bytes) -> dict[str, str]:
    """The options in a node below `/config`, as text, also where a person wrote numbers.

    Raises UnreadableNodeError, which does not show the value: it may be a secret.
    """
    try:
        options = load(raw).get("config", {})
        return {str(k): v if isinstance(v, str) else json.dumps(v) for k, v in options.items()}
    except (ValueError, AttributeError) as error:
        raise UnreadableNodeError(f"{path} holds no options: {type(error).__name__}") from None


def log_dir_event(broker_id: int) -> bytes:
    """A node of `/log_dir_event_notification`: a data directory of this broker has failed."""
    return dump({"version": 1, "broker": broker_id, "event": 1})


def broker_of_event(raw: bytes) -> int | None:
    """The broker that a node of `/log_dir_event_notification` tells of; None for anything else."""
    try:
        broker = load(raw).get("broker")
    except (ValueError, AttributeError):
        return None
    return broker if isinstance(broker, int) else None


def change_notification(path: str) -> bytes:
    """A node of `/config/changes`: options below this path of `/config` are others now."""
    return dump({"version": 2, "entity_path": path})


def changed_entity(raw: bytes) -> str | None:
    """The path below `/config` that a node of `/config/changes` tells of, in any version; None for anything else."""
    try:
        value = json.loads(raw)
    except ValueError:
        return None
    if isinstance(value, str):
        return f"{TOPIC_OPTIONS}/{value}"  # 0.8 has options of topics only, and writes nothing but the name
    if not isinstance(value, dict):
        return None
    if value.get("version") == 1 and "entity_type" in value and "entity_name" in value:
        return f"{value['entity_type']}/{value['entity_name']}"
    path = value.get("entity_path")
    return path if isinstance(path, str) else None


def acls(pattern: ResourcePattern) -> str:
    """The rules about resources."""
    return f"{ACLS[pattern.pattern_type]}/{ACL_KINDS[pattern.resource_type]}/{pattern.resource_name}"


def has_place(resource_name: str) -> bool:
    """Whether ZooKeeper can have a node of this name, below which there would be none."""
    return resource_name not in ("", ".", "..") and _UNFIT.search(resource_name) is None


_UNFIT: Final = re.compile("[/\\x00-\\x1f\\x7f-\\x9f\\ud800-\\uf8ff\\ufff0-\\uffff\\U00010000-\\U0010ffff]")
"""ZooKeeper refuses control characters and what UTF-16 has no single character for."""


def acls_value(rules: Iterable[ACL]) -> bytes:
    """`/kafka-acl/Topic/T` and its siblings."""
    entries = [
        {
            "principal": rule.principal,
            "permissionType": _spelled(rule.permission_type),
            "operation": _spelled(rule.operation),
            "host": rule.host,
        }
        for rule in sorted(rules)
    ]
    return dump({"version": 1, "acls": entries})


def acls_of(pattern: ResourcePattern, raw: bytes) -> frozenset[ACL]:
    """The rules in a node. Raises UnreadableNodeError for what is none: a part of them might allow too much."""
    if not raw:
        return frozenset()
    try:
        value = load(raw)
        if value["version"] != 1:
            raise ValueError(f"version {value['version']}")
        return frozenset(_acl(pattern, entry) for entry in value["acls"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableNodeError(f"{acls(pattern)} holds no access rules: {raw[:200]!r}: {error!r}") from None


def _acl(pattern: ResourcePattern, entry: Mapping[str, Any]) -> ACL:
    principal, host = entry["principal"], entry["host"]
    if not (isinstance(principal, str) and ":" in principal and isinstance(host, str)):
        raise ValueError(f"{principal!r} from {host!r} is nobody")
    operation = _OPERATIONS[entry["operation"].upper()]
    return ACL(principal, host, operation, _PERMISSIONS[entry["permissionType"].upper()], pattern)


def _spelled(value: ACLOperation | ACLPermissionType) -> str:
    return "".join(word.capitalize() for word in value.name.split("_"))


_OPERATIONS: Final = {_spelled(o).upper(): o for o in ACLOperation if o not in (ACLOperation.UNKNOWN, ACLOperation.ANY)}
_PERMISSIONS: Final = {_spelled(p).upper(): p for p in (ACLPermissionType.ALLOW, ACLPermissionType.DENY)}
_KINDS: Final = {name.upper(): kind for kind, name in ACL_KINDS.items()}


def acl_change(pattern: ResourcePattern) -> bytes:
    """A node of `ACL_CHANGES`: the rules about these resources are others now."""
    kind, name, how = pattern
    if how == ACLResourcePatternType.LITERAL:
        return f"{kind.name}:{name}".encode()
    return dump({"version": 1, "resourceType": kind.name, "name": name, "patternType": how.name})


def changed_acls(raw: bytes) -> ResourcePattern | None:
    """What a node of `ACL_CHANGES` tells of, in any version; None for anything else.

    Versions before 2 write the type as the nodes have it (`TransactionalId`), later ones as `TRANSACTIONAL_ID`.
    """
    try:
        if raw.startswith(b"{"):
            value = load(raw)
            kind, name, how = (str(value[key]) for key in ("resourceType", "name", "patternType"))
        else:
            (kind, _, name), how = raw.decode().partition(":"), ACLResourcePatternType.LITERAL.name
        pattern = ResourcePattern(_KINDS[kind.upper().replace("_", "")], name, ACLResourcePatternType[how.upper()])
    except (ValueError, KeyError, RecursionError):
        return None
    return pattern if has_place(name) and pattern.pattern_type in ACLS else None


def feature_value(levels: Mapping[str, int]) -> bytes:
    """`/feature`."""
    features = {name: {"max_version_level": level} for name, level in levels.items()}
    return dump({"version": 2, "status": 1, "features": features})


def feature_levels(raw: bytes) -> dict[str, int]:
    """The levels in `/feature`."""
    return {name: int(level["max_version_level"]) for name, level in load(raw)["features"].items()}


def uuid_text(value: UUID) -> str:
    """An id as Kafka writes it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def uuid_of(text: str) -> UUID:
    """The reverse of `uuid_text`."""
    return UUID(bytes=base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
