"""Metadata: brokers, topics and leaders, from the cluster image.

Unknown topics are created if client and broker allow it, within the client's controller mutation quota (KIP-599).

As in Kafka, the request that creates a topic still gets UNKNOWN_TOPIC_OR_PARTITION, so that a client that waits for the
end of a deletion does not see the new topic. The addresses are those of the listener that the client is connected to.

In a request for all topics, those without DESCRIBE are left out. If a request names such a topic, there is an
authorization error, whether or not the topic exists. If the request identifies the topic by id, the error does not
reveal the topic's name. Creating a topic requires CREATE on the cluster or the topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterator, Mapping, Sequence

from ottla import errors
from ottla.broker.request_context import RequestContext
from ottla.broker.security.authorized_operations import NOT_REQUESTED, on_cluster, on_topic
from ottla.broker.topic_creation import create_missing
from ottla.cluster.image.cluster_image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
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
"""The first version in which topics can be requested by id.

Versions 10 and 11 also have the field, but their responses need a name.
"""

PARTITIONS_AT_ONCE = 1000
"""Number of partitions that are described before other requests are processed."""


def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse | Awaitable[MetadataResponse]:
    image = context.broker.image
    if request.topics is None or (context.version == 0 and not request.topics):
        unauthorized = _unauthorized(image.topics, context)
        return _describe(request, context, [topic for topic in image.topics.values() if topic.name not in unauthorized])
    missing = {
        t.name for t in request.topics if t.name is not None and t.topic_id == ZERO_UUID and t.name not in image.topics
    }
    if missing and context.broker.config.auto_create_topics_enable and request.allow_auto_topic_creation:
        return _create_then_answer(request, context, missing.difference(_unauthorized(missing, context)))
    return _answer(request, context, {})


def _unauthorized(names: Collection[str], context: RequestContext) -> Collection[str]:
    return context.unauthorized(ACLOperation.DESCRIBE, ResourceType.TOPIC, names)


async def _create_then_answer(request: MetadataRequest, context: RequestContext, missing: set[str]) -> MetadataResponse:
    topic_errors: dict[str, errors.KafkaError] = {}
    if not context.allows(ACLOperation.CREATE, ResourceType.CLUSTER):
        topic_errors |= context.unauthorized_errors(ACLOperation.CREATE, ResourceType.TOPIC, missing)
    quota = context.broker.quotas.mutations(context.user, context.client_id, strict=True)
    for name in sorted(missing - topic_errors.keys()):
        try:
            await create_missing(context.broker, name, quota)
            topic_errors[name] = errors.UnknownTopicOrPartitionError()
        except errors.TopicAlreadyExistsError:
            pass  # another client has created it
        except errors.ThrottlingQuotaExceededError:
            topic_errors[name] = errors.UnknownTopicOrPartitionError()  # after which the client retries
        except errors.KafkaError as error:
            topic_errors[name] = error
    answer = _answer(request, context, topic_errors)
    response = await answer if isinstance(answer, Awaitable) else answer
    response.throttle_time_ms = context.throttle(quota.throttle())
    return response


def _answer(
    request: MetadataRequest, context: RequestContext, topic_errors: Mapping[str, errors.KafkaError]
) -> MetadataResponse | Awaitable[MetadataResponse]:
    # computed only now, because creating topics may have added ids
    names = _names(request.topics or [], context.broker.image)
    topic_errors = {**topic_errors, **context.unauthorized_errors(ACLOperation.DESCRIBE, ResourceType.TOPIC, names)}
    return _describe(
        request, context, [_requested_topic(topic, topic_errors, context) for topic in request.topics or ()]
    )


def _requested_topic(
    requested: MetadataRequestTopic, topic_errors: Mapping[str, errors.KafkaError], context: RequestContext
) -> TopicImage | MetadataResponseTopic:
    """Return the requested topic, or a response with its error.

    If the request identifies the topic by id, the error response does not contain the topic's name.
    """
    try:
        return _find(requested, topic_errors, context)
    except errors.KafkaError as error:
        name = requested.name if context.version >= TOPIC_IDS_SINCE else requested.name or ""
        return MetadataResponseTopic(error_code=errors.code_of(error), name=name, topic_id=requested.topic_id)


def _describe(
    request: MetadataRequest, context: RequestContext, topics: Sequence[TopicImage | MetadataResponseTopic]
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Describe topics. If they have many partitions, other requests are processed in between."""
    if sum(len(topic.partitions) for topic in topics) > PARTITIONS_AT_ONCE:
        return _describe_in_turns(request, context, topics)
    return _response(request, context, [_described(topic, request, context) for topic in topics])


async def _describe_in_turns(
    request: MetadataRequest, context: RequestContext, topics: Sequence[TopicImage | MetadataResponseTopic]
) -> MetadataResponse:
    described, partitions = [], 0
    for topic in topics:
        described.append(_described(topic, request, context))
        partitions += len(topic.partitions)
        if partitions >= PARTITIONS_AT_ONCE:
            partitions = 0
            await asyncio.sleep(0)
    return _response(request, context, described)


def _described(
    topic: TopicImage | MetadataResponseTopic, request: MetadataRequest, context: RequestContext
) -> MetadataResponseTopic:
    if isinstance(topic, MetadataResponseTopic):
        return topic
    return _topic(topic, _operations(request, topic, context), context)


def _find(
    requested: MetadataRequestTopic, topic_errors: Mapping[str, errors.KafkaError], context: RequestContext
) -> TopicImage:
    image, name = context.broker.image, requested.name
    by_id = requested.topic_id != ZERO_UUID
    if context.version < TOPIC_IDS_SINCE and (by_id or name is None):
        raise errors.InvalidRequestError
    if by_id:
        name = image.names.get(requested.topic_id)
        if name is None:
            raise errors.UnknownTopicIdError
    name = name or ""
    if name in topic_errors:
        raise topic_errors[name]
    topic = image.topics.get(name)
    if topic is None:
        check_topic_name(name)
        raise errors.UnknownTopicOrPartitionError
    return topic


def _names(requested: list[MetadataRequestTopic], image: ClusterImage) -> Iterator[str]:
    """Yield the names of the requested topics, including those requested by id."""
    for topic in requested:
        name = topic.name if topic.topic_id == ZERO_UUID else image.names.get(topic.topic_id)
        if name is not None:
            yield name


def _response(
    request: MetadataRequest, context: RequestContext, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    image = context.broker.image
    nodes = [broker.node(context.connection.listener.name) for broker in image.brokers.values()]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=n.id, host=n.host, port=n.port, rack=n.rack) for n in nodes],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        cluster_authorized_operations=on_cluster(context)
        if request.include_cluster_authorized_operations
        else NOT_REQUESTED,
    )


def _operations(request: MetadataRequest, topic: TopicImage, context: RequestContext) -> int:
    return on_topic(context, topic.name) if request.include_topic_authorized_operations else NOT_REQUESTED


def _topic(topic: TopicImage, operations: int, context: RequestContext) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[_partition(index, p, context) for index, p in enumerate(topic.partitions)],
        topic_authorized_operations=operations,
    )


def _partition(index: int, p: PartitionImage, context: RequestContext) -> MetadataResponsePartition:
    """Describe a partition. In version 0, replicas on dead brokers are left out, because clients fail on them."""
    image = context.broker.image
    leader = p.leader if p.leader in image.brokers else NO_LEADER
    offline = image.offline_replicas(p)
    replicas, isr, code = list(p.replicas), list(p.isr), 0
    if context.version == 0:
        replicas, isr = ([r for r in ids if r in image.brokers] for ids in (replicas, isr))
        code = errors.code_of(errors.ReplicaNotAvailableError()) if offline else 0
    return MetadataResponsePartition(
        error_code=errors.code_of(errors.LeaderNotAvailableError()) if leader == NO_LEADER else code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=p.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline,
    )
