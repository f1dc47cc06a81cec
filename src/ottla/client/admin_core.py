"""The admin client's work, as coroutines. The blocking face is `admin.KafkaAdminClient`, the other `ottla.aio`'s."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ottla import errors
from ottla.client import admin_groups
from ottla.client.admin_model import (
    BROKER,
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    GroupDescription,
    GroupListing,
    NewPartitions,
    NewTopic,
)
from ottla.client.connections import Connections
from ottla.client.group_offsets import NEWEST_COMMIT, NEWEST_OFFSET_FETCH
from ottla.client.metadata import Metadata, PartitionInfo, TopicInfo
from ottla.config.admin import AdminConfig
from ottla.errors import KafkaError, KafkaTimeoutError
from ottla.model import Node, OffsetAndMetadata, TopicPartition
from ottla.protocol.message import Request, Response
from ottla.protocol.messages import alter_configs as alter
from ottla.protocol.messages import create_partitions as partitions_api
from ottla.protocol.messages import incremental_alter_configs as incremental
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

R = TypeVar("R", bound=Response)
T = TypeVar("T")

_numbers = itertools.count(1)


class AdminCore:
    """Manages topics, options, groups and offsets. Every call has a time limit (default.api.timeout.ms)."""

    def __init__(self, config: AdminConfig) -> None:
        self.config = config
        self.client_id = config.client_id or f"adminclient-{next(_numbers)}"
        self.connections = Connections(config, self.client_id, lambda: self.metadata.cluster.nodes)
        self.metadata = Metadata(
            self.connections,
            max_age_ms=config.metadata_max_age_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            allow_auto_create=False,
        )
        self._back_off = config.retry_backoff_ms / 1000

    async def start(self) -> None:
        """Begin to work; nothing is connected before it is needed."""
        self.metadata.start()

    async def stop(self) -> None:
        """End the connections."""
        await self.metadata.close()
        await self.connections.close()

    # How calls are made

    def _limit(self, timeout_ms: float | None) -> float:
        return (self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms) / 1000

    async def _retry(self, attempt: Callable[[], Awaitable[T]], timeout_ms: float | None) -> T:
        """The result of an attempt; again while its error may pass and there is time."""
        limit = self._limit(timeout_ms)
        deadline = time.monotonic() + limit
        last: KafkaError | None = None
        while True:
            try:
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + deadline - time.monotonic()):
                    return await attempt()
            except KafkaTimeoutError:
                raise
            except TimeoutError:
                reason = f" ({last})" if last is not None else ""
                raise KafkaTimeoutError(f"not done within {limit:g} s{reason}") from last
            except KafkaError as error:
                last = error
                if not error.retriable or time.monotonic() + self._back_off > deadline:
                    raise
                await asyncio.sleep(self._back_off)
                if error.refresh_metadata:
                    self.metadata.request_update()

    async def _controller(self) -> int:
        if self.metadata.cluster.controller_id not in self.metadata.cluster.nodes:
            await self.metadata.refresh(self.connections.request_timeout)
        controller = self.metadata.cluster.controller_id
        if controller not in self.metadata.cluster.nodes:
            raise errors.NotControllerError("the cluster has no controller at the moment")
        return controller

    async def _ask_controller(self, request: Request[R] | Callable[[int], Request[R]], of: type[Request[R]]) -> R:
        return await self.connections.ask(await self._controller(), request, of=of)

    async def _nodes(self) -> dict[int, Node]:
        if not self.metadata.cluster.nodes:
            await self.metadata.refresh(self.connections.request_timeout)
        return self.metadata.cluster.nodes

    def _moved(self, error: KafkaError) -> KafkaError:
        """The controller is another one: look for it before the next try."""
        if isinstance(error, errors.NotControllerError):
            self.metadata.request_update()
        return error

    def _raise_first(
        self, results: Iterable[tuple[str, int, str | None]], passed: type[KafkaError] | None = None
    ) -> None:
        """Raise the first error among (name, code, message), naming what it belongs to."""
        for name, code, message in results:
            if code and not (passed is not None and code == passed.code):
                error = errors.for_code(code)
                raise self._moved(error(f"{name}: {message or error.__doc__}"))

    # Topics

    async def create_topics(
        self, new_topics: Iterable[NewTopic], timeout_ms: float | None = None, validate_only: bool = False
    ) -> None:
        """Make topics, or only check that they could be made. Raises TopicAlreadyExistsError and its like.

        Topics before the one that failed are made all the same.
        """
        left = {topic.name: topic for topic in new_topics}

        async def attempt() -> None:
            request = CreateTopicsRequest(
                topics=[_creatable(topic) for topic in left.values()],
                timeout_ms=int(self._limit(timeout_ms) * 1000),
                validate_only=validate_only,
            )
            response = await self._ask_controller(request, CreateTopicsRequest)
            for topic in response.topics:
                if not topic.error_code:
                    left.pop(topic.name, None)
            self._raise_first((t.name, t.error_code, t.error_message) for t in response.topics)

        await self._retry(attempt, timeout_ms)

    async def delete_topics(self, topics: Iterable[str], timeout_ms: float | None = None) -> None:
        """Remove topics with all their records. Raises UnknownTopicOrPartitionError and its like."""
        left = list(topics)

        async def attempt() -> None:
            def request(version: int) -> DeleteTopicsRequest:
                limit = int(self._limit(timeout_ms) * 1000)
                if version >= 6:
                    return DeleteTopicsRequest(topics=[DeleteTopicState(name=n) for n in left], timeout_ms=limit)
                return DeleteTopicsRequest(topic_names=left, timeout_ms=limit)

            response = await self._ask_controller(request, DeleteTopicsRequest)
            for topic in response.responses:
                # Unknown is retriable for others; here it will stay so.
                if topic.error_code == errors.UnknownTopicOrPartitionError.code:
                    raise _final(errors.UnknownTopicOrPartitionError, f"{topic.name}: there is no such topic")
                if not topic.error_code and topic.name in left:
                    left.remove(topic.name)
            self._raise_first((t.name or "", t.error_code, t.error_message) for t in response.responses)

        await self._retry(attempt, timeout_ms)

    async def create_partitions(
        self,
        topic_partitions: Mapping[str, NewPartitions | int],
        timeout_ms: float | None = None,
        validate_only: bool = False,
    ) -> None:
        """Give topics more partitions: by topic, how many there shall be."""

        async def attempt() -> None:
            topics = []
            for name, wanted in topic_partitions.items():
                new = NewPartitions(wanted) if isinstance(wanted, int) else wanted
                assignments = None
                if new.new_assignments is not None:
                    assignments = [
                        partitions_api.CreatePartitionsAssignment(broker_ids=list(a)) for a in new.new_assignments
                    ]
                topics.append(
                    partitions_api.CreatePartitionsTopic(name=name, count=new.total_count, assignments=assignments)
                )
            request = partitions_api.CreatePartitionsRequest(
                topics=topics, timeout_ms=int(self._limit(timeout_ms) * 1000), validate_only=validate_only
            )
            response = await self._ask_controller(request, partitions_api.CreatePartitionsRequest)
            self._raise_first((r.name, r.error_code, r.error_message) for r in response.results)

        await self._retry(attempt, timeout_ms)

    async def list_topics(self, timeout_ms: float | None = None) -> list[str]:
        """The names of all topics."""
        return sorted(info.name for info in await self._describe(None, timeout_ms))

    async def describe_topics(
        self, topics: Iterable[str] | None = None, timeout_ms: float | None = None
    ) -> dict[str, TopicInfo]:
        """Topics (all of them with None) with partitions, leaders and replicas, by name.

        Raises UnknownTopicOrPartitionError for one that does not exist.
        """
        names = None if topics is None else list(topics)
        return {info.name: info for info in await self._describe(names, timeout_ms)}

    async def _describe(self, names: list[str] | None, timeout_ms: float | None) -> list[TopicInfo]:
        async def attempt() -> list[TopicInfo]:
            wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
            request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
            response = await self.connections.ask_any(request)
            found = []
            for topic in response.topics:
                if topic.error_code == errors.UnknownTopicOrPartitionError.code:
                    raise _final(errors.UnknownTopicOrPartitionError, f"{topic.name}: there is no such topic")
                self._raise_first([(topic.name or "", topic.error_code, None)], errors.LeaderNotAvailableError)
                partitions = sorted(
                    PartitionInfo(
                        topic.name or "",
                        p.partition_index,
                        p.leader_id,
                        p.leader_epoch,
                        tuple(p.replica_nodes),
                        tuple(p.isr_nodes),
                        tuple(p.offline_replicas),
                    )
                    for p in topic.partitions
                )
                found.append(TopicInfo(topic.name or "", topic.topic_id, topic.is_internal, tuple(partitions)))
            return found

        return await self._retry(attempt, timeout_ms)

    async def delete_records(
        self, records_to_delete: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Forget the records before an offset (-1: before the high watermark); where each log begins now."""

        async def attempt() -> dict[TopicPartition, int]:
            self.metadata.add_topics({tp.topic for tp in records_to_delete})
            if any(self.metadata.cluster.leader(tp) < 0 for tp in records_to_delete):
                await self.metadata.refresh(self.connections.request_timeout)
            by_node: dict[int, dict[str, list[DeleteRecordsPartition]]] = {}
            for tp, offset in records_to_delete.items():
                leader = self.metadata.cluster.leader(tp)
                if leader < 0:
                    raise errors.LeaderNotAvailableError(f"{tp} has no leader, as far as is known")
                one = DeleteRecordsPartition(partition_index=tp.partition, offset=offset)
                by_node.setdefault(leader, {}).setdefault(tp.topic, []).append(one)
            found = {}
            for node, topics in by_node.items():
                request = DeleteRecordsRequest(
                    topics=[DeleteRecordsTopic(name=name, partitions=parts) for name, parts in topics.items()],
                    timeout_ms=int(self._limit(timeout_ms) * 1000),
                )
                response = await self.connections.ask(node, request)
                for topic in response.topics:
                    for p in topic.partitions:
                        tp = TopicPartition(topic.name, p.partition_index)
                        self._raise_first([(str(tp), p.error_code, None)])
                        found[tp] = p.low_watermark
            return found

        return await self._retry(attempt, timeout_ms)

    # Cluster and options

    async def describe_cluster(self, timeout_ms: float | None = None) -> ClusterDescription:
        """The cluster's id, controller and brokers."""

        async def attempt() -> ClusterDescription:
            cluster = await self.metadata.refresh(self._limit(timeout_ms))
            nodes = tuple(sorted(cluster.nodes.values()))
            return ClusterDescription(cluster.cluster_id, cluster.nodes.get(cluster.controller_id), nodes)

        return await self._retry(attempt, timeout_ms)

    async def describe_configs(
        self, config_resources: Iterable[ConfigResource], timeout_ms: float | None = None
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """The options of topics and brokers (with names in `configs`: only those), by resource and name."""
        resources = list(config_resources)

        async def attempt() -> dict[ConfigResource, dict[str, ConfigEntry]]:
            found = {}
            for node, some in (await self._by_node(resources)).items():
                request = DescribeConfigsRequest(
                    resources=[
                        DescribeConfigsResource(
                            resource_type=r.resource_type,
                            resource_name=r.name,
                            configuration_keys=None if r.configs is None else list(r.configs),
                        )
                        for r in some
                    ]
                )
                if node is None:
                    response = await self.connections.ask_any(request)
                else:
                    response = await self.connections.ask(node, request)
                self._raise_first((r.resource_name, r.error_code, r.error_message) for r in response.results)
                for resource, result in zip(some, response.results, strict=True):
                    entries = [
                        ConfigEntry(
                            c.name, c.value, c.read_only, 5 if c.is_default else c.config_source, c.is_sensitive
                        )
                        for c in result.configs
                    ]
                    found[resource._replace(configs=None)] = {entry.name: entry for entry in entries}
            return found

        return await self._retry(attempt, timeout_ms)

    async def _by_node(self, resources: Sequence[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
        """Brokers answer for themselves; everything else any of them knows."""
        await self._nodes()
        found: dict[int | None, list[ConfigResource]] = {}
        for resource in resources:
            node = int(resource.name) if resource.resource_type == BROKER and resource.name else None
            found.setdefault(node, []).append(resource)
        return found

    async def alter_configs(
        self, config_resources: Iterable[ConfigResource], timeout_ms: float | None = None, incremental_only: bool = True
    ) -> None:
        """Set options: those in `configs`, None removing one. Others stay, unless `incremental_only` is False."""
        resources = list(config_resources)

        async def attempt() -> None:
            for node, some in (await self._by_node(resources)).items():
                target = await self._controller() if node is None else node
                results: list[Any]
                if incremental_only:
                    changed = incremental.IncrementalAlterConfigsRequest(resources=[_changes(r) for r in some])
                    results = list((await self.connections.ask(target, changed)).responses)
                else:
                    whole = alter.AlterConfigsRequest(resources=[_settings(r) for r in some])
                    results = list((await self.connections.ask(target, whole)).responses)
                self._raise_first((r.resource_name, r.error_code, r.error_message) for r in results)

        await self._retry(attempt, timeout_ms)

    # Groups

    async def list_consumer_groups(self, timeout_ms: float | None = None) -> list[GroupListing]:
        """The groups of all brokers."""

        async def attempt() -> list[GroupListing]:
            found = {}
            for node in await self._nodes():
                response = await self.connections.ask(node, ListGroupsRequest())
                self._raise_first([(f"broker {node}", response.error_code, None)])
                for group in response.groups:
                    found[group.group_id] = GroupListing(group.group_id, group.protocol_type, group.group_state)
            return sorted(found.values())

        return await self._retry(attempt, timeout_ms)

    async def _coordinators(self, group_ids: Sequence[str]) -> dict[int, list[str]]:
        """The groups of each coordinator."""
        found: dict[int, list[str]] = {}
        for group_id in group_ids:

            def request(version: int, group_id: str = group_id) -> FindCoordinatorRequest:
                if version >= 4:
                    return FindCoordinatorRequest(coordinator_keys=[group_id])
                return FindCoordinatorRequest(key=group_id)

            response: Any = await self.connections.ask_any_of(FindCoordinatorRequest, request)
            answer = response.coordinators[0] if response.coordinators else response
            self._raise_first([(group_id, answer.error_code, answer.error_message)])
            found.setdefault(answer.node_id, []).append(group_id)
        if not set(found) <= set(await self._nodes()):
            await self.metadata.refresh(self.connections.request_timeout)
        return found

    async def describe_consumer_groups(
        self, group_ids: Iterable[str], timeout_ms: float | None = None
    ) -> dict[str, GroupDescription]:
        """Groups with their members, by id. A group that does not exist is in the state Dead."""
        wanted = list(group_ids)

        async def attempt() -> dict[str, GroupDescription]:
            found = {}
            for node, groups in (await self._coordinators(wanted)).items():
                response = await self.connections.ask(node, DescribeGroupsRequest(groups=groups))
                for group in response.groups:
                    if group.error_code != errors.GroupIdNotFoundError.code:
                        self._raise_first([(group.group_id, group.error_code, group.error_message)])
                    found[group.group_id] = admin_groups.classic(group)
                dead = [g for g in groups if found[g].state == admin_groups.DEAD]
                found |= await self._describe_new_kind(node, dead)
            return found

        return await self._retry(attempt, timeout_ms)

    async def _describe_new_kind(self, node: int, groups: list[str]) -> dict[str, GroupDescription]:
        """Those of the groups that are of the new kind (KIP-848); none on a broker that does not know it."""
        if not groups:
            return {}
        try:
            response = await self.connections.ask(node, ConsumerGroupDescribeRequest(group_ids=groups))
        except errors.UnsupportedVersionError:
            return {}
        return {g.group_id: admin_groups.of_new_kind(g) for g in response.groups if not g.error_code}

    async def list_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets that a group has committed (of `partitions` only, when given)."""
        wanted = None if partitions is None else set(partitions)

        def request(version: int) -> OffsetFetchRequest:
            if version >= 8:
                return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
            return OffsetFetchRequest(group_id=group_id, topics=None)

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata]:
            node = next(iter(await self._coordinators([group_id])))
            response: Any = await self.connections.ask(
                node, request, of=OffsetFetchRequest, at_most=NEWEST_OFFSET_FETCH
            )
            answer = response.groups[0] if response.groups else response
            self._raise_first([(group_id, answer.error_code, None)])
            found = {}
            for topic in answer.topics:
                for p in topic.partitions:
                    tp = TopicPartition(topic.name, p.partition_index)
                    self._raise_first([(str(tp), p.error_code, None)])
                    if p.committed_offset >= 0 and (wanted is None or tp in wanted):
                        found[tp] = OffsetAndMetadata(p.committed_offset, p.metadata or "", p.committed_leader_epoch)
            return found

        return await self._retry(attempt, timeout_ms)

    async def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], timeout_ms: float | None = None
    ) -> None:
        """Set committed offsets of a group that has no members. Raises UnknownMemberIdError while it has some."""
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for tp, offset in offsets.items():
            wanted = OffsetAndMetadata(offset) if isinstance(offset, int) else offset
            one = OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=wanted.offset,
                committed_leader_epoch=wanted.leader_epoch,
                committed_metadata=wanted.metadata,
            )
            topics.setdefault(tp.topic, []).append(one)
        parts = [OffsetCommitRequestTopic(name=name, partitions=some) for name, some in topics.items()]

        async def attempt() -> None:
            node = next(iter(await self._coordinators([group_id])))
            response = await self.connections.ask(
                node, OffsetCommitRequest(group_id=group_id, topics=parts), at_most=NEWEST_COMMIT
            )
            for topic in response.topics:
                self._raise_first((f"{topic.name}-{p.partition_index}", p.error_code, None) for p in topic.partitions)

        await self._retry(attempt, timeout_ms)

    async def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> None:
        """Forget committed offsets of partitions that no member reads. Raises GroupSubscribedToTopicError otherwise."""
        topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for tp in partitions:
            topics.setdefault(tp.topic, []).append(OffsetDeleteRequestPartition(partition_index=tp.partition))
        parts = [OffsetDeleteRequestTopic(name=name, partitions=some) for name, some in topics.items()]

        async def attempt() -> None:
            node = next(iter(await self._coordinators([group_id])))
            response = await self.connections.ask(node, OffsetDeleteRequest(group_id=group_id, topics=parts))
            self._raise_first([(group_id, response.error_code, None)])
            for topic in response.topics:
                self._raise_first((f"{topic.name}-{p.partition_index}", p.error_code, None) for p in topic.partitions)

        await self._retry(attempt, timeout_ms)

    async def delete_consumer_groups(self, group_ids: Iterable[str], timeout_ms: float | None = None) -> None:
        """Forget groups without members, with their offsets. Raises NonEmptyGroupError, GroupIdNotFoundError…"""
        wanted = list(group_ids)

        async def attempt() -> None:
            for node, groups in (await self._coordinators(wanted)).items():
                response = await self.connections.ask(node, DeleteGroupsRequest(groups_names=groups))
                for result in response.results:
                    if not result.error_code and result.group_id in wanted:
                        wanted.remove(result.group_id)
                self._raise_first((r.group_id, r.error_code, r.error_message) for r in response.results)

        await self._retry(attempt, timeout_ms)


def _creatable(topic: NewTopic) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=number, broker_ids=list(brokers))
        for number, brokers in (topic.replica_assignments or {}).items()
    ]
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assignments else topic.num_partitions,
        replication_factor=-1 if assignments else topic.replication_factor,
        assignments=assignments,
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in (topic.topic_configs or {}).items()],
    )


def _options(resource: ConfigResource) -> dict[str, str | None]:
    if not isinstance(resource.configs, Mapping):
        raise TypeError(f"{resource.name}: configs must map names to values")
    return dict(resource.configs)


def _changes(resource: ConfigResource) -> incremental.AlterConfigsResource:
    return incremental.AlterConfigsResource(
        resource_type=resource.resource_type,
        resource_name=resource.name,
        configs=[
            incremental.AlterableConfig(name=name, config_operation=1 if value is None else 0, value=value)
            for name, value in _options(resource).items()
        ],
    )


def _settings(resource: ConfigResource) -> alter.AlterConfigsResource:
    return alter.AlterConfigsResource(
        resource_type=resource.resource_type,
        resource_name=resource.name,
        configs=[alter.AlterableConfig(name=name, value=value) for name, value in _options(resource).items()],
    )


def _final(error: type[KafkaError], message: str) -> KafkaError:
    """An error that is retriable elsewhere and is certain here."""
    made = error(message)
    made.retriable = False  # type: ignore[misc]  # of this instance
    return made
