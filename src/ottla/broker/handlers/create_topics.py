"""CreateTopics: validate the request, assign replicas, and have the controller create the topics.

Requires CREATE on the cluster or the topic. The response has configs, partitions and replication factor only for
clients with DESCRIBE_CONFIGS on the topic.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter

from ottla.broker import topic_creation
from ottla.broker.config.config_entries import topic_entries
from ottla.broker.quotas.client_quotas import MutationQuota
from ottla.broker.request_context import RequestContext
from ottla.errors import InvalidRequestError, KafkaError, NotControllerError, TopicAuthorizationFailedError, code_of
from ottla.model import ACLOperation
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.security.acl import ResourceType

STRICT_QUOTA_SINCE = 6
"""The first version whose clients know THROTTLING_QUOTA_EXCEEDED."""


async def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    """Create each topic. An error of one does not affect the others."""
    quota = context.broker.quotas.mutations(
        context.user, context.client_id, strict=context.version >= STRICT_QUOTA_SINCE
    )
    seen = Counter(topic.name for topic in request.topics)
    controller = context.broker.controller
    if controller.is_active and _highest_factor(request, context) > len(context.broker.image.brokers):
        await controller.refresh_brokers()  # a broker that has just registered may be missing in the image

    async def answer(position: int, topic: CreatableTopic) -> CreatableTopicResult:
        try:
            if not context.broker.controller.is_active:
                raise NotControllerError
            if seen[topic.name] > 1:
                raise InvalidRequestError(f"Topic '{topic.name}' occurs twice in the request.")
            if not context.allows(ACLOperation.CREATE, ResourceType.CLUSTER):
                context.require(ACLOperation.CREATE, ResourceType.TOPIC, topic.name)
            return await _create(topic, position, request.validate_only, quota, context)
        except KafkaError as error:
            return CreatableTopicResult(
                name=topic.name,
                error_code=code_of(error),
                error_message=error.message,
                num_partitions=-1,
                replication_factor=-1,
            )

    # concurrently, so that brokers that do not respond cost one timeout in total, not one per topic
    results = await asyncio.gather(
        *itertools.starmap(answer, enumerate({topic.name: topic for topic in request.topics}.values()))
    )
    return CreateTopicsResponse(topics=results, throttle_time_ms=context.throttle(quota.throttle()))


def _highest_factor(request: CreateTopicsRequest, context: RequestContext) -> int:
    default = context.broker.config.default_replication_factor
    factors = (
        default if t.replication_factor == topic_creation.USE_DEFAULT else t.replication_factor for t in request.topics
    )
    return max(factors, default=0)


async def _create(
    topic: CreatableTopic, position: int, validate_only: bool, quota: MutationQuota, context: RequestContext
) -> CreatableTopicResult:
    broker = context.broker
    plan = topic_creation.plan(
        broker,
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {a.partition_index: a.broker_ids for a in topic.assignments},
        {c.name: c.value for c in topic.configs},
        position=position,
    )
    result = CreatableTopicResult(name=topic.name, error_message=None)
    if context.allows(ACLOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name):
        result.num_partitions = len(plan.assignment)
        result.replication_factor = len(plan.assignment[0])
        result.configs = [
            CreatableTopicConfigs(name=e.name, value=e.value, config_source=e.source, is_sensitive=e.sensitive)
            for e in topic_entries(broker.dynamic_config, plan.options)
        ]
    else:
        result.topic_config_error_code = code_of(TopicAuthorizationFailedError())
    if not validate_only:
        quota.record(len(plan.assignment))
        result.topic_id = (await topic_creation.create(broker, plan, context.by)).id
    return result
