"""Configs of topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.broker import topic_creation
from ottla.broker.config.config_entries import Entry, topic_entries
from ottla.broker.request_context import RequestContext
from ottla.cluster.image.cluster_image import TopicImage
from ottla.cluster.store.znodes import TOPIC_CONFIGS
from ottla.errors import UnknownTopicOrPartitionError
from ottla.names import check_topic_name
from ottla.security.acl import ResourceType


class TopicResource:
    """Topics, whose configs are stored below `/config/topics`."""

    ruled_as = ResourceType.TOPIC
    lists = frozenset(
        {"cleanup.policy", "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
    )

    def path(self, name: str) -> str:
        return f"{TOPIC_CONFIGS}/{name}"

    def names(self, context: RequestContext) -> Iterable[str]:
        return context.broker.image.topics

    def entries(self, name: str, context: RequestContext) -> Iterable[Entry]:
        return topic_entries(context.broker.dynamic_config, _topic(name, context).configs)

    def options(self, name: str, context: RequestContext) -> Mapping[str, str]:
        return _topic(name, context).configs

    def check(self, name: str, options: Mapping[str, str | None], context: RequestContext) -> dict[str, str]:
        topic = context.broker.image.topics.get(name)
        return topic_creation.check_options(options, context.broker.config, {} if topic is None else topic.configs)

    async def set(self, name: str, options: Mapping[str, str], context: RequestContext) -> None:
        await context.broker.config_store.set_topic(name, options)


def _topic(name: str, context: RequestContext) -> TopicImage:
    check_topic_name(name)
    topic = context.broker.image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"Topic '{name}' does not exist.")
    return topic
