"""Base of consumer, share and streams groups. Kafka's `ModernGroup`; the members are in `consumer_member`.

A change of members or topics that requires another assignment bumps the group's epoch. A target assignment is computed
for the new epoch, and the members then move to their targets. The logged state of a group is changed only by replaying
records, once they are written.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.group.common.consumer_member import (
    LEAVE_GROUP_EPOCH,
    NOTHING,
    Assignment,
    ModernMember,
    SubscribedMember,
    flatten,
)
from ottla.coordinator.group.common.group import Group, Subscribed
from ottla.coordinator.group.common.group_configs import GroupConfigs
from ottla.coordinator.runtime.result import CoordinatorResult, ResponseFuture
from ottla.errors import InvalidRequestError, KafkaError, UnknownMemberIdError, code_of
from ottla.protocol.message import Response

M = TypeVar("M", bound=ModernMember)
S = TypeVar("S", bound=SubscribedMember)
T = TypeVar("T")
R = TypeVar("R", bound=Response)


@dataclass(slots=True)
class ModernGroup(Generic[M, T]):
    """A group with members of type M and their target assignments of type T."""

    TYPE: ClassVar[str]

    id: str
    epoch: int = 0
    metadata_hash: int = 0
    target_epoch: int = 0
    assigned_at_ms: int = 0
    """The time of the last target assignment in ms since 1970; 0 if there is none, or the time is unknown."""
    members: dict[str, M] = field(default_factory=dict)
    targets: dict[str, T] = field(default_factory=dict)

    @property
    def type(self) -> str:
        return self.TYPE

    @property
    def protocol_type(self) -> str:
        return self.TYPE

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return not self.members

    def member(self, member_id: str) -> M:
        """Return a member. Raises UnknownMemberIdError if there is no such member."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberIdError(f"Member {member_id} is not a member of group {self.id}.")
        return member

    @abstractmethod
    def topics(self) -> frozenset[str]:
        """Return the names of the topics that the group reads."""

    def subscribed(self) -> Subscribed:
        return self.topics().__contains__


@dataclass(slots=True)
class SubscribedGroup(ModernGroup[S, Assignment]):
    """A group whose members subscribe to topics: a consumer or share group."""

    def target_of(self, member: S) -> Assignment:
        return self.targets.get(member.id, NOTHING)

    def topics_of(self, member: S) -> frozenset[str]:
        """Return the names of the topics that a member subscribes to."""
        return member.topics

    def topics(self) -> frozenset[str]:
        """Return the names of the topics that at least one member subscribes to."""
        return frozenset().union(*map(self.topics_of, self.members.values()))


class ModernGroups:
    """Base of the request handlers of one type of group. `by_id` holds the broker's groups of all types."""

    def __init__(
        self,
        group_type: str,
        config: BrokerConfig,
        clock: Clock,
        image: Callable[[], ClusterImage],
        by_id: MutableMapping[str, Group],
    ) -> None:
        self._config = config
        self._clock = clock
        self._image = image
        self._by_id = by_id
        self.configs = GroupConfigs(group_type, config, image)

    def may_assign(self, group: ModernGroup[Any, Any]) -> bool:
        """Return whether the assignment interval has passed since the last assignment.

        True if there was none, or its time is unknown.
        """
        interval_ms = self.configs.assignment_interval_ms(group.id)
        if not group.assigned_at_ms or not interval_ms:
            return True
        return self._clock.now_ms() >= group.assigned_at_ms + interval_ms

    def _respond(
        self, future: ResponseFuture, response_class: type[R], handle: Callable[[CoordinatorResult], R]
    ) -> CoordinatorResult:
        """Return the result of a heartbeat with the response of `handle`.

        If that raises a KafkaError, the result has an error response and no records.
        """
        result = CoordinatorResult()
        try:
            response = handle(result)
        except KafkaError as error:
            result = CoordinatorResult()
            response = response_class(error_code=code_of(error), error_message=error.message)  # type: ignore[call-arg]
        result.respond(future, response)
        return result


def check_not_blank(**fields: str | None) -> None:
    """Raise InvalidRequestError if a field is empty or blank; None is allowed."""
    for name, value in fields.items():
        if value is not None and not value.strip():
            raise InvalidRequestError(f"{name} can't be empty.")


def described(member: S, request: Any, client: Any, **changes: Any) -> S:
    """Return the member with the rack, topics and client of a heartbeat, and with `changes`.

    A rack or topics that are None in the request are not changed.
    """
    names = request.subscribed_topic_names
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        topics=member.topics if names is None else frozenset(names),
        client_id=client.id,
        client_host=client.host,
        **changes,
    )


# Replay


def apply_epoch(group: ModernGroup[Any, Any], _key: Any, value: Any) -> None:
    """Apply the epoch and hash of a ConsumerGroupMetadata, ShareGroupMetadata or StreamsGroupMetadata record.

    A tombstone changes nothing here.
    """
    if value is not None:
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash


def apply_target_epoch(group: ModernGroup[Any, Any], _key: Any, value: Any) -> None:
    group.target_epoch = LEAVE_GROUP_EPOCH if value is None else value.assignment_epoch
    group.assigned_at_ms = 0 if value is None else value.assignment_timestamp


def apply_target(group: SubscribedGroup[Any], key: Any, value: Any) -> None:
    if value is None:
        group.targets.pop(key.member_id, None)
    else:
        group.targets[key.member_id] = flatten(value.topic_partitions)
