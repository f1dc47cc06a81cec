"""Topics: made, removed, listed, described; given more partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from ottla import errors
from ottla.client.admin.configs import ConfigEntry
from ottla.client.admin.driver import AdminCalls, Errors, failure, throttled
from ottla.client.core.metadata import TopicInfo, partition_info
from ottla.errors import KafkaError, UnknownTopicIdError, UnknownTopicOrPartitionError
from ottla.protocol.messages import create_partitions as partitions_api
from ottla.protocol.messages import create_topics as create
from ottla.protocol.messages import delete_topics as delete
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic

NO_ID: Final = UUID(int=0)
UNKNOWN: Final = (UnknownTopicOrPartitionError, UnknownTopicIdError)
"""Elsewhere the news may not have arrived; here it will not come."""
POLL_SECONDS: Final = 0.1


class NewTopic(NamedTuple):
    """A topic to make. -1 partitions or replicas: the broker's default; or every partition's replicas by hand."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignments: Mapping[int, Sequence[int]] | None = None
    topic_configs: Mapping[str, str | None] | None = None


class NewPartitions(NamedTuple):
    """How many partitions a topic shall have, and where the replicas of each new one go (None: the broker decides)."""

    total_count: int
    new_assignments: Sequence[Sequence[int]] | None = None


class CreatedTopic(NamedTuple):
    """A topic that was made; -1 and None where the broker does not say (before 2.4, or not permitted)."""

    name: str
    topic_id: UUID
    num_partitions: int
    replication_factor: int
    configs: dict[str, ConfigEntry] | None


class TopicListing(NamedTuple):
    """One topic in a list."""

    name: str
    topic_id: UUID
    is_internal: bool


class TopicsAdmin(AdminCalls):
    """Calls about topics."""

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
        """Make topics, or only check that they could be made. Raises TopicAlreadyExistsError and its like.

        Topics are NewTopic, names, or (as in kafka-python) a mapping from names to `num_partitions`,
        `replication_factor`, `assignments` and `configs`. Others are made even where one fails.
        """
        wanted = {topic.name: topic for topic in _new_topics(new_topics)}

        async def attempt(left: list[str]) -> dict[str, CreatedTopic | KafkaError]:
            request = create.CreateTopicsRequest(
                topics=[_creatable(wanted[name]) for name in left],
                timeout_ms=self.limit_ms(timeout_ms),
                validate_only=validate_only,
            )
            response = await self.ask_controller(request)
            found: dict[str, CreatedTopic | KafkaError] = {}
            for topic in response.topics:
                error = failure(topic.error_code, topic.name, topic.error_message)
                if error is not None:
                    error = throttled(error, response.throttle_time_ms, retry_on_quota_violation)
                found[topic.name] = error or _created(topic)
            return found

        failed = _collector(errors, raise_errors)
        made = await self.settled(wanted, attempt, timeout_ms, failed)
        if wait_for_metadata and not validate_only:
            await self.wait_for_topics(made, timeout_ms)
        return made

    async def wait_for_topics(self, topic_names: Iterable[str], timeout_ms: float | None = None) -> None:
        """Wait until every partition of topics has a leader. KafkaTimeoutError when they do not get there."""
        names = list(topic_names)

        async def attempt() -> None:
            while names:
                found = await self._topics([MetadataRequestTopic(name=name) for name in names])
                if all(self._is_led(topic) for topic in found):
                    return
                await asyncio.sleep(POLL_SECONDS)

        await self.retried(attempt, timeout_ms)

    def _is_led(self, topic: MetadataResponseTopic) -> bool:
        return not topic.error_code and all(p.leader_id >= 0 for p in topic.partitions)

    async def delete_topics(
        self,
        topics: Iterable[str | UUID],
        timeout_ms: float | None = None,
        *,
        raise_errors: bool = True,
        retry_on_quota_violation: bool = True,
        errors: Errors | None = None,
    ) -> None:
        """Remove topics, by name or id, with all their records. Raises UnknownTopicOrPartitionError and its like."""

        async def attempt(left: list[str | UUID]) -> dict[str | UUID, KafkaError | None]:
            def request(version: int) -> delete.DeleteTopicsRequest:
                if version < 6:
                    return delete.DeleteTopicsRequest(
                        topic_names=_names_only(left), timeout_ms=self.limit_ms(timeout_ms)
                    )
                states = [
                    delete.DeleteTopicState(topic_id=t) if isinstance(t, UUID) else delete.DeleteTopicState(name=t)
                    for t in left
                ]
                return delete.DeleteTopicsRequest(topics=states, timeout_ms=self.limit_ms(timeout_ms))

            response = await self.ask_controller(request, delete.DeleteTopicsRequest)
            found: dict[str | UUID, KafkaError | None] = {}
            for topic in response.responses:
                key: str | UUID = topic.topic_id if topic.topic_id in left else topic.name or ""
                error = failure(topic.error_code, key, topic.error_message)
                if error is not None:
                    error = throttled(error, response.throttle_time_ms, retry_on_quota_violation)
                found[key] = error
            return found

        await self.settled(topics, attempt, timeout_ms, _collector(errors, raise_errors), UNKNOWN)

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
        """Give topics more partitions: by topic, how many there shall be. Raises InvalidPartitionsError…"""
        wanted = {name: _new_partitions(new) for name, new in topic_partitions.items()}

        async def attempt(left: list[str]) -> dict[str, KafkaError | None]:
            request = partitions_api.CreatePartitionsRequest(
                topics=[_more_partitions(name, wanted[name]) for name in left],
                timeout_ms=self.limit_ms(timeout_ms),
                validate_only=validate_only,
            )
            response = await self.ask_controller(request)
            found = {}
            for result in response.results:
                error = failure(result.error_code, result.name, result.error_message)
                if error is not None:
                    error = throttled(error, response.throttle_time_ms, retry_on_quota_violation)
                found[result.name] = error
            return found

        await self.settled(wanted, attempt, timeout_ms, _collector(errors, raise_errors), UNKNOWN)

    async def list_topics(self, timeout_ms: float | None = None, *, list_internal: bool = True) -> list[str]:
        """The names of all topics; without the brokers' own ones if not `list_internal`."""
        return [topic.name for topic in await self.list_topic_listings(timeout_ms) if list_internal or not topic[2]]

    async def list_topic_listings(self, timeout_ms: float | None = None) -> list[TopicListing]:
        """All topics with their ids, in the order of their names."""

        async def attempt() -> list[TopicListing]:
            found = await self._topics(None)
            return sorted(TopicListing(topic.name or "", topic.topic_id, topic.is_internal) for topic in found)

        return await self.retried(attempt, timeout_ms)

    async def describe_topics(
        self,
        topics: Iterable[str | UUID] | None = None,
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> dict[str, TopicInfo]:
        """Topics (by name or id; all of them with None) with partitions, leaders and replicas, by name.

        Raises UnknownTopicOrPartitionError or UnknownTopicIdError for one that does not exist.
        """
        if topics is None:
            every = await self.retried(lambda: self._topics(None), timeout_ms)
            return {info.name: info for info in sorted(map(_topic_info, every))}

        async def attempt(left: list[str | UUID]) -> dict[str | UUID, TopicInfo | KafkaError]:
            wanted = [
                MetadataRequestTopic(topic_id=t, name=None) if isinstance(t, UUID) else MetadataRequestTopic(name=t)
                for t in left
            ]
            found: dict[str | UUID, TopicInfo | KafkaError] = {}
            for topic in await self._topics(wanted):
                key: str | UUID = topic.topic_id if topic.topic_id in left else topic.name or ""
                code = topic.error_code
                found[key] = (None if code == NO_LEADER else failure(code, key)) or _topic_info(topic)
            return found

        described = await self.settled(topics, attempt, timeout_ms, errors, UNKNOWN)
        return {info.name: info for info in described.values()}

    async def _topics(self, wanted: list[MetadataRequestTopic] | None) -> list[MetadataResponseTopic]:
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        return list((await self.connections.ask_any(request)).topics)


NO_LEADER: Final = errors.LeaderNotAvailableError.code


def _collector(failed: Errors | None, raise_errors: bool) -> Errors | None:
    return {} if failed is None and not raise_errors else failed


def _new_topics(given: Iterable[NewTopic | str] | Mapping[str, Mapping[str, Any]]) -> list[NewTopic]:
    if isinstance(given, Mapping):
        return [
            NewTopic(
                name,
                options.get("num_partitions", -1),
                options.get("replication_factor", -1),
                options.get("assignments"),
                options.get("configs"),
            )
            for name, options in given.items()
        ]
    if isinstance(given, (str, NewTopic)):
        raise TypeError("a list of topics is wanted")
    return [NewTopic(topic) if isinstance(topic, str) else topic for topic in given]


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
            c.name: ConfigEntry(c.name, c.value, c.read_only, c.config_source, c.is_sensitive) for c in topic.configs
        }
    return CreatedTopic(topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor, configs)


def _names_only(topics: Collection[str | UUID]) -> list[str]:
    names = [topic for topic in topics if isinstance(topic, str)]
    if len(names) < len(topics):
        raise errors.UnsupportedVersionError("the broker does not know topics by their id")
    return names


def _new_partitions(wanted: NewPartitions | int | Mapping[str, Any]) -> NewPartitions:
    if isinstance(wanted, Mapping):
        return NewPartitions(wanted["count"], wanted.get("assignments"))
    return NewPartitions(wanted) if isinstance(wanted, int) else wanted


def _more_partitions(name: str, new: NewPartitions) -> partitions_api.CreatePartitionsTopic:
    assignments = None
    if new.new_assignments is not None:
        assignments = [partitions_api.CreatePartitionsAssignment(broker_ids=list(a)) for a in new.new_assignments]
    return partitions_api.CreatePartitionsTopic(name=name, count=new.total_count, assignments=assignments)


def _topic_info(topic: MetadataResponseTopic) -> TopicInfo:
    name = topic.name or ""
    partitions = sorted(partition_info(name, p) for p in topic.partitions)
    return TopicInfo(name, topic.topic_id, topic.is_internal, tuple(partitions))
