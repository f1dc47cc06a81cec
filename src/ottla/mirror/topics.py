"""Topics of a flow at the target, with partitions, configs and ACLs as at the source (`MirrorSourceConnector`)."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Final

from ottla.aio import ConfigResource, NewPartitions, NewTopic, TopicPartition
from ottla.client.admin.configs import ConfigEntry, ConfigResourceType, ConfigSource
from ottla.client.admin.driver import Errors
from ottla.client.core.metadata import TopicInfo
from ottla.errors import InvalidPartitionsError, KafkaError, SecurityDisabledError, TopicAlreadyExistsError
from ottla.mirror.clusters import Cluster
from ottla.mirror.flow_config import Flow
from ottla.mirror.replication_policy import ReplicationPolicy
from ottla.model import ACLOperation
from ottla.security.acl import (
    ACL,
    WILDCARD,
    ACLFilter,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

log = logging.getLogger("ottla.mirror")

TOPIC_ACLS: Final = ACLFilter(resource_pattern=ResourcePatternFilter(ResourceType.TOPIC))
NEXT_INTERVAL: Final = "retrying at the next interval"
Entries = Mapping[str, ConfigEntry]


class TopicMirror:
    """Creates and updates the topics of a flow at its target."""

    def __init__(self, flow: Flow, policy: ReplicationPolicy, source: Cluster, target: Cluster) -> None:
        self._flow = flow
        self._config = flow.config
        self._policy = policy
        self._source = source
        self._target = target
        self.partitions: frozenset[TopicPartition] = frozenset()
        """The source partitions to copy: those whose counterparts at the target exist."""
        self._without_acls = False

    def is_copied(self, topic: str) -> bool:
        """Return whether a topic of the source is copied: it is selected, not internal, and not from the target."""
        config = self._config
        selected = matches(config.topics, topic) and not matches(config.topics_exclude, topic)
        if config.heartbeats_replication_enabled and self._policy.is_heartbeats_topic(topic):
            selected = True
        internal = self._policy.is_internal_topic(topic)
        return selected and not internal and not self._policy.is_cycle(topic, self._flow.name.target)

    def remote_topic(self, topic: str) -> str:
        """Return the name of a topic of the source at the target."""
        return self._policy.remote_topic(self._flow.name.source, topic)

    async def refresh(self) -> None:
        """Find the topics and partitions to copy, and create those that the target lacks."""
        described = await self._source.admin.describe_topics()
        topics = {name: info for name, info in described.items() if self.is_copied(name) and info.partitions}
        at_target = await self._target.admin.describe_topics()
        new = [name for name in topics if self.remote_topic(name) not in at_target]
        await self._create(new, topics)
        await self._add_partitions(topics, at_target)
        if new:
            at_target = await self._target.admin.describe_topics()
        self._set_partitions(topics, at_target)

    def _set_partitions(self, topics: Mapping[str, TopicInfo], at_target: Mapping[str, TopicInfo]) -> None:
        counts = {name: len(info.partitions) for name, info in at_target.items()}
        partitions = frozenset(
            TopicPartition(name, p.partition)
            for name, info in topics.items()
            for p in info.partitions
            if p.partition < counts.get(self.remote_topic(name), 0)
        )
        if partitions != self.partitions:
            names = {tp.topic for tp in partitions}
            log.info("%s: topics to copy: %d, partitions: %d", self._flow.name, len(names), len(partitions))
        self.partitions = partitions

    async def _create(self, names: list[str], topics: Mapping[str, TopicInfo]) -> None:
        if not names:
            return
        configs = await self._topic_configs(self._source, names)
        new_topics = [
            NewTopic(
                self.remote_topic(name),
                len(topics[name].partitions),
                self._config.replication_factor,
                topic_configs={key: entry.value for key, entry in self._to_set(configs.get(name, {})).items()},
            )
            for name in names
        ]
        failed: Errors = {}
        created = await self._target.admin.create_topics(new_topics, errors=failed, wait_for_metadata=True)
        for name in sorted(created):
            log.info("%s: created topic %s at the target", self._flow.name, name)
        self._warn(failed, "create topic", self._target, self._next_refresh, TopicAlreadyExistsError)

    async def _add_partitions(self, topics: Mapping[str, TopicInfo], at_target: dict[str, TopicInfo]) -> None:
        larger = {
            self.remote_topic(name): len(info.partitions)
            for name, info in topics.items()
            if (remote := at_target.get(self.remote_topic(name))) and len(remote.partitions) < len(info.partitions)
        }
        if not larger:
            return
        failed: Errors = {}
        new_counts = {name: NewPartitions(count) for name, count in larger.items()}
        await self._target.admin.create_partitions(new_counts, errors=failed)
        added = [name for name in larger if name not in failed]
        await self._target.admin.wait_for_topics(added)
        at_target |= await self._target.admin.describe_topics(added)
        for name in added:
            log.info(
                "%s: added partitions to topic %s at the target; the topic has %d now",
                self._flow.name,
                name,
                larger[name],
            )
        self._warn(failed, "add partitions to topic", self._target, self._next_refresh, InvalidPartitionsError)

    async def sync_configs(self) -> None:
        """Set the configs of the copied topics at the target, and remove those that are only set there.

        Read-only and sensitive configs, those of config.properties.exclude, and those that the source does not have are
        left as they are.
        """
        names = sorted({tp.topic for tp in self.partitions})
        sources = await self._topic_configs(self._source, names)
        targets = await self._topic_configs(self._target, [self.remote_topic(name) for name in names])
        changes = {}
        for name, entries in sources.items():
            remote = self.remote_topic(name)
            if remote in targets and (change := self._changes(entries, targets[remote])):
                changes[ConfigResource(ConfigResourceType.TOPIC, remote)] = change
        if not changes:
            return
        failed: Errors = {}
        await self._target.admin.alter_configs(changes, errors=failed)
        for resource, change in changes.items():
            if resource not in failed:
                log.info(
                    "%s: changed configs of topic %s at the target: %s",
                    self._flow.name,
                    resource.name,
                    ", ".join(change),
                )
        self._warn(
            {resource.name: error for resource, error in failed.items()},
            "change configs of topic",
            self._target,
            NEXT_INTERVAL,
        )

    def _changes(self, source: Entries, target: Entries) -> dict[str, str | None]:
        """Return the configs to set at the target; None removes one."""
        to_set = self._to_set(source)
        changes: dict[str, str | None] = {
            key: entry.value for key, entry in to_set.items() if key not in target or target[key].value != entry.value
        }
        for key, entry in target.items():
            if _is_set(entry) and key in source and key not in to_set and self._is_config_copied(entry):
                changes[key] = None
        return changes

    def _to_set(self, entries: Entries) -> dict[str, ConfigEntry]:
        """Return the configs to set at the target: those that are set at the source, and with use.defaults.from=source
        those with defaults as well. Read-only, sensitive and excluded configs are left out.
        """
        with_defaults = self._config.use_defaults_from == "source"
        return {
            key: entry
            for key, entry in entries.items()
            if self._is_config_copied(entry) and (_is_set(entry) or (with_defaults and _is_default(entry)))
        }

    def _is_config_copied(self, entry: ConfigEntry) -> bool:
        excluded = matches(self._config.config_properties_exclude, entry.name)
        return not (entry.read_only or entry.is_sensitive or excluded)

    async def _topic_configs(self, cluster: Cluster, topics: list[str]) -> dict[str, Entries]:
        if not topics:
            return {}
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
        failed: Errors = {}
        described = await cluster.admin.describe_configs(resources, errors=failed)
        problems = {resource.name: error for resource, error in failed.items()}
        self._warn(problems, "describe configs of topic", cluster, "not copying its configs this time")
        return {resource.name: entries for resource, entries in described.items()}

    async def sync_acls(self) -> None:
        """Create the ACLs of the copied topics at the target, except those that allow WRITE. An ACL that allows ALL
        becomes one that allows READ. ACLs are never deleted.

        Only ACLs for one topic by its name are copied. Does nothing if a cluster has no authorizer.
        """
        if self._without_acls:
            return
        try:
            acls = await self._source.admin.describe_acls(TOPIC_ACLS)
            copies = [self._target_acl(acl) for acl in acls if self._is_acl_copied(acl)]
            existing = set(await self._target.admin.describe_acls(TOPIC_ACLS)) if copies else set()
            new = [acl for acl in copies if acl not in existing]
            failed: Errors = {}
            created = await self._target.admin.create_acls(new, errors=failed) if new else []
        except SecurityDisabledError:
            log.info(
                "%s: the source or target cluster has no authorizer; ACLs are not copied before a restart",
                self._flow.name,
            )
            self._without_acls = True
            return
        if created:
            log.info("%s: created ACLs of topics at the target: %d", self._flow.name, len(created))
        self._warn(failed, "create ACL", self._target, NEXT_INTERVAL)

    def _is_acl_copied(self, acl: ACL) -> bool:
        pattern = acl.resource_pattern
        writes = acl.permission_type == ACLPermissionType.ALLOW and acl.operation == ACLOperation.WRITE
        literal = pattern.pattern_type == ACLResourcePatternType.LITERAL
        named = literal and pattern.resource_name != WILDCARD
        return named and not writes and self.is_copied(pattern.resource_name)

    def _target_acl(self, acl: ACL) -> ACL:
        """Return the ACL for the copy of a topic: one that allows ALL on the topic allows only READ on the copy."""
        name = self.remote_topic(acl.resource_pattern.resource_name)
        everything = acl.permission_type == ACLPermissionType.ALLOW and acl.operation == ACLOperation.ALL
        return acl._replace(
            operation=ACLOperation.READ if everything else acl.operation,
            resource_pattern=ResourcePattern(ResourceType.TOPIC, name),
        )

    @property
    def _next_refresh(self) -> str:
        """A text for log lines: whether the creation or expansion of a topic at the target is tried again."""
        if self._config.refresh_topics_enabled:
            return NEXT_INTERVAL
        return "not retried before a restart, because refresh.topics.enabled=false"

    def _warn(
        self,
        failed: Mapping[object, KafkaError],
        action: str,
        cluster: Cluster,
        outcome: str,
        *ignored: type[KafkaError],
    ) -> None:
        for name, error in failed.items():
            if not isinstance(error, ignored):
                log.warning(
                    "%s: cannot %s %s on %s; %s: %s", self._flow.name, action, name, cluster.alias, outcome, error
                )


def matches(pattern: re.Pattern[str] | None, name: str) -> bool:
    """Return whether a pattern matches the whole name. None matches no name."""
    return pattern is not None and pattern.fullmatch(name) is not None


def _is_set(entry: ConfigEntry) -> bool:
    return entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG


def _is_default(entry: ConfigEntry) -> bool:
    return entry.source == ConfigSource.DEFAULT_CONFIG
