"""Admin calls for topics: creation, deletion, lists, descriptions, additional partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from ottla import errors
from ottla.client.admin.configs import OWN_SOURCES, TOPIC, ConfigEntry
from ottla.client.admin.driver import (
    AdminCall,
    AdminDriver,
    Errors,
    any_broker,
    distinct,
    failure,
    results,
    to_controller,
    with_throttle,
)
from ottla.client.core.metadata import TopicInfo, partition_info
from ottla.errors import KafkaError, UnknownTopicIdError, UnknownTopicOrPartitionError
from ottla.protocol.messages import create_partitions as partitions_api
from ottla.protocol.messages import create_topics as create
from ottla.protocol.messages import delete_topics as delete
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic

UNKNOWN: Final = (UnknownTopicOrPartitionError, UnknownTopicIdError)
"""Errors of a topic that the broker does not know. They are not retried."""
NO_LEADER: Final = errors.LeaderNotAvailableError.code
POLL_SECONDS: Final = 0.1


class NewTopic(NamedTuple):
    """A topic to create. -1 partitions or replicas: the broker's default. `replica_assignments`: the broker ids of each
    partition's replicas, by partition number, instead of these two numbers.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignments: Mapping[int, Sequence[int]] | None = None
    topic_configs: Mapping[str, str | None] | None = None


class NewPartitions(NamedTuple):
    """The new total number of partitions, and the broker ids of each added partition's replicas (None: the controller
    chooses).
    """

    total_count: int
    new_assignments: Sequence[Sequence[int]] | None = None


class CreatedTopic(NamedTuple):
    """A topic that was created or, with `validate_only`, would be. If the broker does not report them, the numbers are
    -1, and `configs` is None (without authorization) or empty (brokers before Kafka 2.4).
    """

    name: str
    topic_id: UUID
    num_partitions: int
    replication_factor: int
    configs: dict[str, ConfigEntry] | None

    def __repr__(self) -> str:
        """Leave out the configs, of which there are dozens."""
        configs = None if self.configs is None else f"<{len(self.configs)} configs>"
        return (
            f"CreatedTopic(name={self.name!r}, topic_id={self.topic_id!r}, num_partitions={self.num_partitions}, "
            f"replication_factor={self.replication_factor}, configs={configs})"
        )


class TopicListing(NamedTuple):
    """A topic's name and id, and whether it is internal, such as __consumer_offsets."""

    name: str
    topic_id: UUID
    is_internal: bool


class TopicsAdmin(AdminDriver):
    """Admin calls for topics."""

    async def create_topics(
        self,
        new_topics: Iterable[NewTopic | str] | Mapping[str, Mapping[str, Any]],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        *,
        raise_errors: bool = True,
        wait_for_metadata: bool = False,
        retry_on_quota_violation: bool = True,
        errors: Errors | None = None,
    ) -> dict[str, CreatedTopic]:
        """Create topics, or only validate the request. Raises, for example, TopicAlreadyExistsError.

        Topics are NewTopic, names, or (as in kafka-python) a mapping from names to `num_partitions`,
        `replication_factor`, `assignments` and `configs`. If one topic fails, the others are created nevertheless. With
        `wait_for_metadata`, waits until every partition of the new topics has a leader.

        If the response of an attempt is lost, the next attempt raises TopicAlreadyExistsError for the topics that the
        lost one created, as in Java: the client cannot know whether it has created them itself.
        """
        topics = {topic.name: topic for topic in _new_topics(new_topics)}
        call: AdminCall[str, CreatedTopic] = AdminCall(
            lambda names: create.CreateTopicsRequest(
                topics=[_creatable(topics[name]) for name in names],
                timeout_ms=self.milliseconds(timeout_ms),
                validate_only=validate_only,
            ),
            lambda response, *_: with_throttle(
                results(response.topics, _name, _created), response.throttle_time_ms, retry=retry_on_quota_violation
            ),
            to_controller,
        )
        created = await self.call_per_key(call, topics, timeout_ms, _collector(errors, raise_errors))
        if wait_for_metadata and not validate_only:
            await self.wait_for_topics(created, timeout_ms)
        return created

    async def wait_for_topics(self, topic_names: Iterable[str], timeout_ms: float | None = None) -> None:
        """Wait until every partition of these topics has a leader. Raises KafkaTimeoutError after `timeout_ms`."""
        names = distinct(topic_names)

        async def attempt() -> None:
            while names:
                topics = await self._topics([MetadataRequestTopic(name=name) for name in names])
                if all(not topic.error_code and all(p.leader_id >= 0 for p in topic.partitions) for topic in topics):
                    return
                await asyncio.sleep(POLL_SECONDS)

        await self.retry(attempt, timeout_ms)

    async def delete_topics(
        self,
        topics: Iterable[str | UUID],
        timeout_ms: float | None = None,
        *,
        raise_errors: bool = True,
        retry_on_quota_violation: bool = True,
        errors: Errors | None = None,
    ) -> None:
        """Delete topics, by name or id, with all their records. Raises, for example, UnknownTopicOrPartitionError."""

        def request(remaining: list[str | UUID], version: int) -> delete.DeleteTopicsRequest:
            limit_ms = self.milliseconds(timeout_ms)
            if version < 6:
                return delete.DeleteTopicsRequest(topic_names=_names_only(remaining), timeout_ms=limit_ms)
            states = [
                delete.DeleteTopicState(topic_id=t) if isinstance(t, UUID) else delete.DeleteTopicState(name=t)
                for t in remaining
            ]
            return delete.DeleteTopicsRequest(topics=states, timeout_ms=limit_ms)

        call: AdminCall[str | UUID, None] = AdminCall(
            lambda remaining: lambda version: request(remaining, version),
            lambda response, remaining, _: with_throttle(
                results(response.responses, lambda topic: _key(topic, remaining)),
                response.throttle_time_ms,
                retry=retry_on_quota_violation,
            ),
            to_controller,
            of=delete.DeleteTopicsRequest,
            final=UNKNOWN,
        )
        await self.call_per_key(call, topics, timeout_ms, _collector(errors, raise_errors))

    async def create_partitions(
        self,
        topic_partitions: Mapping[str, NewPartitions | int | Mapping[str, Any]],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        *,
        raise_errors: bool = True,
        retry_on_quota_violation: bool = True,
        errors: Errors | None = None,
    ) -> None:
        """Add partitions to topics. The value of each topic is its new total number of partitions, or NewPartitions.
        Raises, for example, InvalidPartitionsError if a topic already has as many.
        """
        targets = {name: _new_partitions(new) for name, new in topic_partitions.items()}
        call: AdminCall[str, None] = AdminCall(
            lambda names: partitions_api.CreatePartitionsRequest(
                topics=[_more_partitions(name, targets[name]) for name in names],
                timeout_ms=self.milliseconds(timeout_ms),
                validate_only=validate_only,
            ),
            lambda response, *_: with_throttle(
                results(response.results, _name), response.throttle_time_ms, retry=retry_on_quota_violation
            ),
            to_controller,
            final=UNKNOWN,
        )
        await self.call_per_key(call, targets, timeout_ms, _collector(errors, raise_errors))

    async def list_topics(self, timeout_ms: float | None = None, *, list_internal: bool = True) -> list[str]:
        """Return the names of all topics that this client is authorized to describe; internal topics only if
        `list_internal` is set.
        """
        listings = await self.list_topic_listings(timeout_ms)
        return [topic.name for topic in listings if list_internal or not topic.is_internal]

    async def list_topic_listings(self, timeout_ms: float | None = None) -> list[TopicListing]:
        """Return all topics that this client is authorized to describe, with their ids, sorted by name."""
        topics = await self.retry(lambda: self._topics(None), timeout_ms)
        return sorted(TopicListing(topic.name or "", topic.topic_id, topic.is_internal) for topic in topics)

    async def describe_topics(
        self,
        topics: Iterable[str | UUID] | None = None,
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> dict[str, TopicInfo]:
        """Return descriptions of topics, with partitions, leaders and replicas, by topic name. `topics` are names or
        ids (None: all topics).

        Raises UnknownTopicOrPartitionError or UnknownTopicIdError for a topic that does not exist.
        """
        if topics is None:
            every = await self.retry(lambda: self._topics(None), timeout_ms)
            return {info.name: info for info in sorted(map(_topic_info, every))}

        def outcome(key: str | UUID, topic: MetadataResponseTopic) -> TopicInfo | KafkaError:
            error = None if topic.error_code == NO_LEADER else failure(topic.error_code, key)
            return error or _topic_info(topic)

        call: AdminCall[str | UUID, TopicInfo] = AdminCall(
            lambda remaining: _metadata_request(
                [
                    MetadataRequestTopic(topic_id=t, name=None) if isinstance(t, UUID) else MetadataRequestTopic(name=t)
                    for t in remaining
                ]
            ),
            lambda response, remaining, _: {
                key: outcome(key, topic) for topic in response.topics for key in (_key(topic, remaining),)
            },
            any_broker,
            final=UNKNOWN,
        )
        described = await self.call_per_key(call, topics, timeout_ms, errors)
        return {info.name: info for info in described.values()}

    async def _topics(self, topics: list[MetadataRequestTopic] | None) -> list[MetadataResponseTopic]:
        return list((await self.connections.send_any(_metadata_request(topics))).topics)


def _metadata_request(topics: list[MetadataRequestTopic] | None) -> MetadataRequest:
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def _name(item: Any) -> str:
    return str(item.name)


def _key(topic: Any, keys: Collection[str | UUID]) -> str | UUID:
    """Return the id of a topic in a response if it was requested by id, otherwise its name."""
    return topic.topic_id if topic.topic_id in keys else topic.name or ""


def _collector(failed: Errors | None, raise_errors: bool) -> Errors | None:
    return {} if failed is None and not raise_errors else failed


def _new_topics(topics: Iterable[NewTopic | str] | Mapping[str, Mapping[str, Any]]) -> list[NewTopic]:
    if isinstance(topics, Mapping):
        return [
            NewTopic(
                name,
                options.get("num_partitions", -1),
                options.get("replication_factor", -1),
                options.get("assignments"),
                options.get("configs"),
            )
            for name, options in topics.items()
        ]
    if isinstance(topics, (str, NewTopic)):
        raise TypeError("expected a list of topics")
    return [NewTopic(topic) if isinstance(topic, str) else topic for topic in topics]


def _creatable(topic: NewTopic) -> create.CreatableTopic:
    assignments = [
        create.CreatableReplicaAssignment(partition_index=number, broker_ids=list(brokers))
        for number, brokers in (topic.replica_assignments or {}).items()
    ]
    return create.CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assignments else topic.num_partitions,
        replication_factor=-1 if assignments else topic.replication_factor,
        assignments=assignments,
        configs=[create.CreatableTopicConfig(name=k, value=v) for k, v in (topic.topic_configs or {}).items()],
    )


def _created(topic: create.CreatableTopicResult) -> CreatedTopic:
    configs = None
    if topic.configs is not None and not topic.topic_config_error_code:
        configs = {
            c.name: ConfigEntry(
                c.name, c.value, c.read_only, c.config_source, c.is_sensitive, own_source=OWN_SOURCES[TOPIC]
            )
            for c in topic.configs
        }
    return CreatedTopic(topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor, configs)


def _names_only(topics: Collection[str | UUID]) -> list[str]:
    names = [topic for topic in topics if isinstance(topic, str)]
    if len(names) < len(topics):
        raise errors.UnsupportedVersionError("the broker cannot delete topics by id")
    return names


def _new_partitions(target: NewPartitions | int | Mapping[str, Any]) -> NewPartitions:
    if isinstance(target, Mapping):
        return NewPartitions(target["count"], target.get("assignments"))
    return NewPartitions(target) if isinstance(target, int) else target


def _more_partitions(name: str, new: NewPartitions) -> partitions_api.CreatePartitionsTopic:
    assignments = None
    if new.new_assignments is not None:
        assignments = [partitions_api.CreatePartitionsAssignment(broker_ids=list(a)) for a in new.new_assignments]
    return partitions_api.CreatePartitionsTopic(name=name, count=new.total_count, assignments=assignments)


def _topic_info(topic: MetadataResponseTopic) -> TopicInfo:
    name = topic.name or ""
    partitions = sorted(partition_info(name, p) for p in topic.partitions)
    return TopicInfo(name, topic.topic_id, topic.is_internal, tuple(partitions))
