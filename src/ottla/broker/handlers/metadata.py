"""Metadata: brokers, topics and leaders, from the image; unknown topics are created where both sides allow it.

Who had a topic created by asking hears that it is unknown, as with Kafka, and finds it by asking again: who asks
whether a deletion is done must not be told of the new topic. Served in all versions. Addresses are those of the
listener that the client came in through.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from ottla.broker.authorized_operations import UNASKED, on_cluster, on_topic
from ottla.broker.services import Call
from ottla.broker.topic_creation import create_missing
from ottla.cluster.metadata import NO_LEADER, PartitionImage, TopicImage
from ottla.cluster.topics import check_name
from ottla.errors import (
    KafkaError,
    LeaderNotAvailableError,
    ReplicaNotAvailableError,
    TopicAlreadyExistsError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    code_of,
)
from ottla.protocol.fields import ZERO_UUID
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def handle(request: MetadataRequest, call: Call) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Describe what is asked for; create what is missing first."""
    image = call.services.image
    if request.topics is None or (call.version == 0 and not request.topics):
        return _response(
            request, call, [_topic(topic, _operations(request, topic, call), call) for topic in image.topics.values()]
        )
    missing = {
        t.name for t in request.topics if t.name is not None and t.topic_id == ZERO_UUID and t.name not in image.topics
    }
    if missing and call.services.config.auto_create_topics_enable and request.allow_auto_topic_creation:
        return _create_then_answer(request, call, missing)
    return _answer(request, call, {})


async def _create_then_answer(request: MetadataRequest, call: Call, missing: Iterable[str]) -> MetadataResponse:
    errors: dict[str, KafkaError] = {}
    for name in sorted(missing):
        try:
            await create_missing(call.services, name)
            errors[name] = UnknownTopicOrPartitionError()
        except TopicAlreadyExistsError:
            pass  # another client was faster
        except KafkaError as error:
            errors[name] = error
    return _answer(request, call, errors)


def _answer(request: MetadataRequest, call: Call, errors: dict[str, KafkaError]) -> MetadataResponse:
    image = call.services.image
    topics = []
    for asked in request.topics or ():
        name = asked.name
        if asked.topic_id != ZERO_UUID:
            name = image.names.get(asked.topic_id)
            if name is None:
                code = code_of(UnknownTopicIdError())
                topics.append(MetadataResponseTopic(error_code=code, name=None, topic_id=asked.topic_id))
                continue
        name = name or ""
        found = image.topics.get(name)
        if found is not None and name not in errors:
            topics.append(_topic(found, _operations(request, found, call), call))
        else:
            error = errors.get(name) or _why_missing(name)
            topics.append(MetadataResponseTopic(error_code=code_of(error), name=name))
    return _response(request, call, topics)


def _why_missing(name: str) -> KafkaError:
    try:
        check_name(name)
    except KafkaError as error:
        return error
    return UnknownTopicOrPartitionError()


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
