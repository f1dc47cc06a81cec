"""Paths and values of znodes, as Kafka 0.8 to 3.9 use them in ZooKeeper. Kafka's `ZkData`.

`/cluster/secret` is Ottla's own. Some values are in other modules, such as those of delegation tokens in
`token_znodes`, of registrations in `store_reader`, of `/controller` in `election`, and of `/cluster/id` in `lifecycle`.
"""

from __future__ import annotations

import base64
import json
import math
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
TOPIC_CONFIGS: Final = "topics"
CONFIG_TOPICS: Final = f"/config/{TOPIC_CONFIGS}"
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
"""Znodes that every cluster has from its first start on, parents before their children."""

ACLS: Final = {
    ACLResourcePatternType.LITERAL: "/kafka-acl",
    ACLResourcePatternType.PREFIXED: "/kafka-acl-extended/prefixed",
}
"""The root paths of ACLs by pattern type."""
ACL_CHANGES: Final = {
    ACLResourcePatternType.LITERAL: "/kafka-acl-changes",
    ACLResourcePatternType.PREFIXED: "/kafka-acl-extended-changes",
}
"""The parents of ACL change notifications, by pattern type."""
ACL_KINDS: Final[Mapping[ResourceType, str]] = {
    kind: "".join(word.capitalize() for word in kind.name.split("_"))
    for kind in ResourceType
    if kind not in (ResourceType.UNKNOWN, ResourceType.ANY)
}
"""The names of resource types in paths, such as TransactionalId."""
ACL_NODES: Final = (
    "/kafka-acl-extended",
    *(f"{parent}{below}" for parent in ACLS.values() for below in ("", "/Topic", "/Group", "/Cluster")),
    *ACL_CHANGES.values(),
)
"""The znodes that exist if ACLs are stored, parents before their children.

Those of other resource types are created with their first ACL, because tools of Kafka 0.9 to 1 fail if a resource type
exists that they do not know.
"""


DELEGATION_TOKENS: Final = "/delegation_token/tokens"


def broker(broker_id: int) -> str:
    """Return the path of a broker's registration."""
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    """Return the path of a topic's replica assignment."""
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    """Return the path of the parent of a topic's partitions."""
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, index: int) -> str:
    """Return the path of the parent of a partition's state."""
    return f"{TOPICS}/{name}/partitions/{index}"


def partition_state(name: str, index: int) -> str:
    """Return the path of a partition's leader and ISR."""
    return f"{TOPICS}/{name}/partitions/{index}/state"


def config_topic(name: str) -> str:
    """Return the path of a topic's configs."""
    return f"{CONFIG_TOPICS}/{name}"


def config_entity(path: str) -> str:
    """Return the path of the configs of an entity other than a topic (see `config_entities`)."""
    return f"/config/{path}"


def delete_topic(name: str) -> str:
    """Return the path of a request to delete a topic."""
    return f"{DELETE_TOPICS}/{name}"


def consumer_ids(group: str) -> str:
    """Return the path of the parent of a 0.8 group's members."""
    return f"{CONSUMERS}/{group}/ids"


def consumer_id(group: str, member: str) -> str:
    """Return the path of a 0.8 group's member; the value is its subscription."""
    return f"{CONSUMERS}/{group}/ids/{member}"


def consumer_owners(group: str, name: str) -> str:
    """Return the path of the parent of the owners of a topic's partitions."""
    return f"{CONSUMERS}/{group}/owners/{name}"


def consumer_owner(group: str, name: str, index: int) -> str:
    """Return the path of a partition's owner, which is a thread of a member."""
    return f"{CONSUMERS}/{group}/owners/{name}/{index}"


def consumer_offset(group: str, name: str, index: int) -> str:
    """Return the path of a 0.8 group's committed offset."""
    return f"{CONSUMERS}/{group}/offsets/{name}/{index}"


def is_secret(path: str) -> bool:
    """Return whether a znode may contain secrets, so that only brokers may read it."""
    return path.startswith(
        (
            f"/config/{config_entities.USERS}",
            f"/config/{config_entities.BROKERS}",
            CLUSTER_SECRET,
            DELEGATION_TOKENS,
        )
    )


def secret_value(secret: bytes) -> bytes:
    return dump({"version": 1, "secret": base64.b64encode(secret).decode()})


def secret_of(raw: bytes) -> bytes:
    """Return the secret in `/cluster/secret`; empty if the value is malformed."""
    try:
        return base64.b64decode(load(raw)["secret"], validate=True)
    except (ValueError, KeyError, TypeError):
        return b""


def is_open(path: str) -> bool:
    """Return whether any client may write the znode, as the consumers of Kafka 0.8 do."""
    return path.startswith(CONSUMERS)


def now() -> str:
    """Return the current time in the format of znodes: milliseconds since 1970, as text."""
    return str(now_ms())


def dump(value: Mapping[str, Any]) -> bytes:
    """Return JSON as Kafka writes it, without blanks."""
    return json.dumps(value, separators=(",", ":")).encode()


def load(raw: bytes) -> dict[str, Any]:
    """Parse the value of a znode.

    Raises ValueError if it is malformed or contains a number that is not finite, for which `int` would raise
    OverflowError.
    """
    try:
        value: dict[str, Any] = json.loads(raw, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def topic_value(
    topic_id: UUID,
    assignment: Sequence[Sequence[int]],
    adding: Mapping[int, Sequence[int]] = MappingProxyType({}),
    removing: Mapping[int, Sequence[int]] = MappingProxyType({}),
) -> bytes:
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
    """The value of `/brokers/topics/T`: the replicas of each partition, and by partition those that a reassignment adds
    and removes.
    """

    id: UUID | None
    """The topic id; None if Kafka before 2.8 has written the znode."""
    replicas: tuple[tuple[int, ...], ...]
    adding: Mapping[int, tuple[int, ...]]
    removing: Mapping[int, tuple[int, ...]]


def topic_layout(name: str, raw: bytes) -> TopicLayout:
    """Parse `/brokers/topics/T`. Raises UnreadableNodeError if the value or the topic's name is invalid."""
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
        raise UnreadableNodeError(f"{topic(name)} is not a replica assignment: {raw[:200]!r}: {error}") from None


def _by_partition(value: Mapping[str, Sequence[int]]) -> dict[int, tuple[int, ...]]:
    return {int(p): tuple(map(int, replicas)) for p, replicas in value.items()}


def state_value(controller_epoch: int, leader: int, leader_epoch: int, isr: Sequence[int]) -> bytes:
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
    """Return the value of `/latest_producer_id_block`: the last allocated block, which ends before `end`."""
    start = max(0, end - PRODUCER_ID_BLOCK_SIZE)
    return dump({"version": 1, "broker": broker_id, "block_start": str(start), "block_end": str(end - 1)})


def request_value(partitions: Iterable[Mapping[str, Any]]) -> bytes:
    return dump({"version": 1, "partitions": list(partitions)})


def config_value(configs: Mapping[str, str]) -> bytes:
    """Return the value of the znode with an entity's configs."""
    return dump({"version": 1, "config": dict(configs)})


def parse_configs(path: str, raw: bytes) -> dict[str, str]:
    """Parse the configs in a znode below `/config`. All values are returned as text, even if the JSON has numbers.

    Raises UnreadableNodeError if the value is malformed. The message does not contain it, because it may be a secret.
    """
    try:
        configs = load(raw).get("config", {})
        return {str(k): v if isinstance(v, str) else json.dumps(v) for k, v in configs.items()}
    except (ValueError, AttributeError) as error:
        raise UnreadableNodeError(f"{path} is malformed: {type(error).__name__}") from None


def log_dir_event(broker_id: int) -> bytes:
    """Return the value of `/log_dir_event_notification/…`, which reports that a log directory of the broker has
    failed.
    """
    return dump({"version": 1, "broker": broker_id, "event": 1})


def broker_of_event(raw: bytes) -> int | None:
    """Return the broker that a znode below `/log_dir_event_notification` names; None if it is malformed."""
    try:
        broker = load(raw).get("broker")
    except (ValueError, AttributeError):
        return None
    return broker if isinstance(broker, int) else None


def change_notification(path: str) -> bytes:
    """Return the value of `/config/changes/…`, which reports that the configs at this path below `/config` have
    changed.
    """
    return dump({"version": 2, "entity_path": path})


def changed_entity(raw: bytes) -> str | None:
    """Return the path below `/config` that a znode of `/config/changes` names, in any version; None if it is
    malformed.
    """
    try:
        value: Any = load(raw)
    except ValueError:
        return None
    if isinstance(value, str):
        return f"{TOPIC_CONFIGS}/{value}"  # Kafka 0.8 has only topic configs, and writes only the topic's name
    if not isinstance(value, dict):
        return None
    if value.get("version") == 1 and "entity_type" in value and "entity_name" in value:
        return f"{value['entity_type']}/{value['entity_name']}"
    path = value.get("entity_path")
    return path if isinstance(path, str) else None


def acls(pattern: ResourcePattern) -> str:
    """Return the path of a resource's ACLs."""
    return f"{ACLS[pattern.pattern_type]}/{ACL_KINDS[pattern.resource_type]}/{pattern.resource_name}"


def is_valid_name(resource_name: str) -> bool:
    """Return whether a resource's name can be the name of a znode."""
    return resource_name not in ("", ".", "..") and _INVALID_CHARACTERS.search(resource_name) is None


_INVALID_CHARACTERS: Final = re.compile(
    "[/\\x00-\\x1f\\x7f-\\x9f\\ud800-\\uf8ff\\ufff0-\\uffff\\U00010000-\\U0010ffff]"
)
"""Characters that the name of a znode cannot contain: slashes, control characters, surrogates, U+E000 to U+F8FF, U+FFF0
to U+FFFF, and everything above, which UTF-16 encodes as surrogates.
"""


def acls_value(rules: Iterable[ACL]) -> bytes:
    """Return the value of a resource's ACL znode, such as `/kafka-acl/Topic/T`."""
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
    """Parse the ACLs in a znode.

    Raises UnreadableNodeError if the value or any of the ACLs is malformed, because the others alone might allow too
    much.
    """
    if not raw:
        return frozenset()
    try:
        value = load(raw)
        if value["version"] != 1:
            raise ValueError(f"version {value['version']}")
        return frozenset(_acl(pattern, entry) for entry in value["acls"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableNodeError(f"{acls(pattern)} is malformed: {raw[:200]!r}: {error!r}") from None


def _acl(pattern: ResourcePattern, entry: Mapping[str, Any]) -> ACL:
    principal, host = entry["principal"], entry["host"]
    if not (isinstance(principal, str) and ":" in principal and isinstance(host, str)):
        raise ValueError(f"{principal!r} from {host!r} is not a principal and host")
    operation = _OPERATIONS[entry["operation"].upper()]
    return ACL(principal, host, operation, _PERMISSIONS[entry["permissionType"].upper()], pattern)


def _spelled(value: ACLOperation | ACLPermissionType) -> str:
    return "".join(word.capitalize() for word in value.name.split("_"))


_OPERATIONS: Final = {_spelled(o).upper(): o for o in ACLOperation if o not in (ACLOperation.UNKNOWN, ACLOperation.ANY)}
_PERMISSIONS: Final = {_spelled(p).upper(): p for p in (ACLPermissionType.ALLOW, ACLPermissionType.DENY)}
_KINDS: Final = {name.upper(): kind for kind, name in ACL_KINDS.items()}


def acl_change(pattern: ResourcePattern) -> bytes:
    """Return the value of a notification below `ACL_CHANGES`, which reports that the ACLs of this resource have
    changed.
    """
    kind, name, how = pattern
    if how == ACLResourcePatternType.LITERAL:
        return f"{kind.name}:{name}".encode()
    return dump({"version": 1, "resourceType": kind.name, "name": name, "patternType": how.name})


def changed_acls(raw: bytes) -> ResourcePattern | None:
    """Return the resource that a notification below `ACL_CHANGES` names, in any format; None if it is malformed.

    Kafka before 2.0 writes the resource type as in paths (`TransactionalId`), later releases as `TRANSACTIONAL_ID`.
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
    return pattern if is_valid_name(name) and pattern.pattern_type in ACLS else None


def feature_value(levels: Mapping[str, int]) -> bytes:
    features = {name: {"max_version_level": level} for name, level in levels.items()}
    return dump({"version": 2, "status": 1, "features": features})


def feature_levels(raw: bytes) -> dict[str, int]:
    """Return the levels of features. Raises UnreadableNodeError if the value is malformed."""
    try:
        return {name: int(level["max_version_level"]) for name, level in load(raw)["features"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableNodeError(f"{raw[:200]!r}: {error!r}") from None


def uuid_text(value: UUID) -> str:
    """Return an id as text in Kafka's format: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def uuid_of(text: str) -> UUID:
    return UUID(bytes=base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
