"""CreateTopics: check, place the replicas, write to the store, make the logs.

Who asks has to be allowed to create in the cluster, or the topic. Its options and numbers of partitions and replicas
are told to who may describe the options.
"""

from __future__ import annotations

import asyncio
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
"""The version from which clients understand THROTTLING_QUOTA_EXCEEDED."""


async def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    """Create each topic; one that fails does not stop the others."""
    quota = context.broker.quotas.mutations(
        context.user, context.client_id, strict=context.version >= STRICT_QUOTA_SINCE
    )
    seen = Counter(topic.name for topic in request.topics)
    controller = context.broker.controller
    if controller.is_active and _highest_factor(request, context) > len(context.broker.image.brokers):
        await controller.refresh_brokers()  # one that has just registered may not be known yet

    async def answer(topic: CreatableTopic) -> CreatableTopicResult:
        try:
            if not context.broker.controller.is_active:
                raise NotControllerError
            if seen[topic.name] > 1:
                raise InvalidRequestError(f"Topic '{topic.name}' is named twice in the request.")
            if not context.allows(ACLOperation.CREATE, ResourceType.CLUSTER):
                context.require(ACLOperation.CREATE, ResourceType.TOPIC, topic.name)
            return await _create(topic, request.validate_only, quota, context)
        except KafkaError as error:
            return CreatableTopicResult(
                name=topic.name,
                error_code=code_of(error),
                error_message=error.message,
                num_partitions=-1,
                replication_factor=-1,
            )

    # together, so that brokers which do not answer are waited for once, not once for each topic
    results = await asyncio.gather(*map(answer, {topic.name: topic for topic in request.topics}.values()))
    return CreateTopicsResponse(topics=results, throttle_time_ms=context.throttle(quota.wait_seconds))


def _highest_factor(request: CreateTopicsRequest, context: RequestContext) -> int:
    default = context.broker.config.default_replication_factor
    factors = (
        default if t.replication_factor == topic_creation.USE_DEFAULT else t.replication_factor for t in request.topics
    )
    return max(factors, default=0)


async def _create(
    topic: CreatableTopic, validate_only: bool, quota: MutationQuota, context: RequestContext
) -> CreatableTopicResult:
    broker = context.broker
    plan = topic_creation.plan(
        broker,
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {a.partition_index: a.broker_ids for a in topic.assignments},
        {c.name: c.value for c in topic.configs},
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
        result.topic_id = (await topic_creation.create(broker, plan)).id
    return result
