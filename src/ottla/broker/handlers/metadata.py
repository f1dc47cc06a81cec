"""Metadata: brokers, topics and leaders, from the image; unknown topics are created where both sides allow it.

Who had a topic created by asking hears that it is unknown, as with Kafka, and finds it by asking again: who asks
whether a deletion is done must not be told of the new topic. Served in all versions. Addresses are those of the
listener that the client came in through.

Of all topics, those are left out that the client may not describe. By name it is refused, whether there is such a topic
or not; by id, the name is not told. Who has a topic created by asking has to be allowed to create it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterator, Mapping, Sequence

from ottla.broker.security.authorized_operations import UNASKED, on_cluster, on_topic
from ottla.broker.services import Call
from ottla.broker.topic_creation import create_missing
from ottla.cluster.image.cluster_image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from ottla.errors import (
    InvalidRequestError,
    KafkaError,
    LeaderNotAvailableError,
    ReplicaNotAvailableError,
    TopicAlreadyExistsError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    code_of,
)
from ottla.model import ACLOperation
from ottla.names import check_topic_name
from ottla.protocol.fields import ZERO_UUID
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.security.acl import ResourceType

TOPIC_IDS_SINCE = 12
"""The version from which topics may be asked for by id; 10 and 11 have the field, but no answer without a name."""

PARTITIONS_AT_ONCE = 1000
"""Partitions that are described before other requests get their turn."""


def handle(request: MetadataRequest, call: Call) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Describe what is asked for; create what is missing first."""
    image = call.services.image
    if request.topics is None or (call.version == 0 and not request.topics):
        denied = _denied(image.topics, call)
        return _describe(request, call, [topic for topic in image.topics.values() if topic.name not in denied])
    missing = {
        t.name for t in request.topics if t.name is not None and t.topic_id == ZERO_UUID and t.name not in image.topics
    }
    if missing and call.services.config.auto_create_topics_enable and request.allow_auto_topic_creation:
        return _create_then_answer(request, call, missing.difference(_denied(missing, call)))
    return _answer(request, call, {})


def _denied(names: Collection[str], call: Call) -> Collection[str]:
    return call.denied(ACLOperation.DESCRIBE, ResourceType.TOPIC, names)


async def _create_then_answer(request: MetadataRequest, call: Call, missing: set[str]) -> MetadataResponse:
    errors: dict[str, KafkaError] = {}
    if not call.allows(ACLOperation.CREATE, ResourceType.CLUSTER):
        errors |= call.refused(ACLOperation.CREATE, ResourceType.TOPIC, missing)
    for name in sorted(missing - errors.keys()):
        try:
            await create_missing(call.services, name)
            errors[name] = UnknownTopicOrPartitionError()
        except TopicAlreadyExistsError:
            pass  # another client was faster
        except KafkaError as error:
            errors[name] = error
    answer = _answer(request, call, errors)
    return await answer if isinstance(answer, Awaitable) else answer


def _answer(
    request: MetadataRequest, call: Call, errors: Mapping[str, KafkaError]
) -> MetadataResponse | Awaitable[MetadataResponse]:
    # not before something was created: by then more ids may have names
    names = _names(request.topics or [], call.services.image)
    errors = {**errors, **call.refused(ACLOperation.DESCRIBE, ResourceType.TOPIC, names)}
    return _describe(request, call, [_asked(topic, errors, call) for topic in request.topics or ()])


def _asked(
    asked: MetadataRequestTopic, errors: Mapping[str, KafkaError], call: Call
) -> TopicImage | MetadataResponseTopic:
    """One topic that was asked for, or why nothing is told of it. By id, not even its name."""
    try:
        return _find(asked, errors, call)
    except KafkaError as error:
        name = asked.name if call.version >= TOPIC_IDS_SINCE else asked.name or ""
        return MetadataResponseTopic(error_code=code_of(error), name=name, topic_id=asked.topic_id)


def _describe(
    request: MetadataRequest, call: Call, found: Sequence[TopicImage | MetadataResponseTopic]
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Describe topics; with many partitions other requests get their turn in between."""
    if sum(len(topic.partitions) for topic in found) > PARTITIONS_AT_ONCE:
        return _describe_in_turns(request, call, found)
    return _response(request, call, [_described(topic, request, call) for topic in found])


async def _describe_in_turns(
    request: MetadataRequest, call: Call, found: Sequence[TopicImage | MetadataResponseTopic]
) -> MetadataResponse:
    described, partitions = [], 0
    for topic in found:
        described.append(_described(topic, request, call))
        partitions += len(topic.partitions)
        if partitions >= PARTITIONS_AT_ONCE:
            partitions = 0
            await asyncio.sleep(0)
    return _response(request, call, described)


def _described(
    topic: TopicImage | MetadataResponseTopic, request: MetadataRequest, call: Call
) -> MetadataResponseTopic:
    if isinstance(topic, MetadataResponseTopic):
        return topic
    return _topic(topic, _operations(request, topic, call), call)


def _find(asked: MetadataRequestTopic, errors: Mapping[str, KafkaError], call: Call) -> TopicImage:
    image, name = call.services.image, asked.name
    by_id = asked.topic_id != ZERO_UUID
    if call.version < TOPIC_IDS_SINCE and (by_id or name is None):
        raise InvalidRequestError
    if by_id:
        name = image.names.get(asked.topic_id)
        if name is None:
            raise UnknownTopicIdError
    name = name or ""
    if name in errors:
        raise errors[name]
    found = image.topics.get(name)
    if found is None:
        check_topic_name(name)
        raise UnknownTopicOrPartitionError
    return found


def _names(asked: list[MetadataRequestTopic], image: ClusterImage) -> Iterator[str]:
    """The names of topics that are asked for, also of those asked for by id."""
    for topic in asked:
        name = topic.name if topic.topic_id == ZERO_UUID else image.names.get(topic.topic_id)
        if name is not None:
            yield name


def _response(request: MetadataRequest, call: Call, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    image = call.services.image
    nodes = [broker.node(call.connection.listener.name) for broker in image.brokers.values()]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=n.id, host=n.host, port=n.port, rack=n.rack) for n in nodes],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        cluster_authorized_operations=on_cluster(call) if request.include_cluster_authorized_operations else UNASKED,
    )


def _operations(request: MetadataRequest, topic: TopicImage, call: Call) -> int:
    return on_topic(call, topic.name) if request.include_topic_authorized_operations else UNASKED


def _topic(topic: TopicImage, operations: int, call: Call) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[_partition(index, p, call) for index, p in enumerate(topic.partitions)],
        topic_authorized_operations=operations,
    )


def _partition(index: int, p: PartitionImage, call: Call) -> MetadataResponsePartition:
    """One partition. Clients of version 0 look every replica up among the brokers, and fail where it is not there."""
    brokers = call.services.image.brokers
    leader = p.leader if p.leader in brokers else NO_LEADER
    offline = [replica for replica in p.replicas if replica not in brokers]
    replicas, isr, code = list(p.replicas), list(p.isr), 0
    if call.version == 0:
        replicas, isr = ([r for r in ids if r in brokers] for ids in (replicas, isr))
        code = code_of(ReplicaNotAvailableError()) if offline else 0
    return MetadataResponsePartition(
        error_code=code_of(LeaderNotAvailableError()) if leader == NO_LEADER else code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=p.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline,
    )
