"""Creation of topics, at the request of a client or automatically. The broker's configs are the defaults."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla import errors
from ottla.broker.broker_context import BrokerContext
from ottla.broker.quotas.client_quotas import MutationQuota
from ottla.cluster.controller import replica_placement
from ottla.cluster.image.cluster_image import TopicImage
from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.topic import TopicConfig, topic_defaults
from ottla.model import CONSUMER_OFFSETS, REMOTE_LOG_METADATA, SHARE_GROUP_STATE, TRANSACTION_STATE
from ottla.names import check_topic_name
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

log = logging.getLogger("ottla.broker")

UNREACHED = (
    errors.BrokerConnectionError,
    errors.BrokerNotAvailableError,
    errors.NetworkError,
    errors.NotControllerError,
    errors.RequestTimedOutError,
)
"""Errors of a request that did not reach the controller or was not answered in time."""
FORWARDED_VERSION = 7
"""Version of CreateTopics that is forwarded; the newest one of Kafka 3.9."""
METADATA_WAIT_SECONDS = 5.0
"""Maximum time in seconds to wait for the metadata of a topic that the controller has created."""
USE_DEFAULT = -1
"""The number of partitions or replicas that stands for the broker's default (KIP-464)."""


class TopicPlan(NamedTuple):
    """A checked topic, ready to be created."""

    name: str
    assignment: list[tuple[int, ...]]
    options: Mapping[str, str]


def plan(
    broker: BrokerContext,
    name: str,
    partitions: int = USE_DEFAULT,
    replication_factor: int = USE_DEFAULT,
    assignment: Mapping[int, Sequence[int]] | None = None,
    options: Mapping[str, str | None] | None = None,
    *,
    position: int = 0,
) -> TopicPlan:
    """Check a requested topic, and return it ready to be created. Raises a KafkaError if it cannot be created.

    `position`: the index of the topic in the request. It makes different brokers lead the first partitions of the
    topics in one request.
    """
    image, config = broker.image, broker.config
    check_topic_name(name)
    replica_placement.check_collision(name, image.topics)
    checked = check_options(options or {}, config)
    if assignment:
        if (partitions, replication_factor) != (USE_DEFAULT, USE_DEFAULT):
            raise errors.InvalidRequestError(
                "a topic must have either an assignment or numbers of partitions and replicas, not both"
            )
        assigned = replica_placement.validate_assignment(assignment, image.brokers, cordoned=image.cordoned_brokers)
        return TopicPlan(name, assigned, checked)
    count = config.num_partitions if partitions == USE_DEFAULT else partitions
    factor = config.default_replication_factor if replication_factor == USE_DEFAULT else replication_factor
    return TopicPlan(
        name, replica_placement.assign_replicas(count, factor, image.racks, first=len(image.topics) + position), checked
    )


async def create(broker: BrokerContext, topic_plan: TopicPlan, by: str = " (automatically)") -> TopicImage:
    """Create a planned topic. Raises NotControllerError if this broker is not the controller.

    `by`: the end of the log line, such as the client that requests the topic.
    """
    return await broker.controller.topics.create(topic_plan.name, topic_plan.assignment, topic_plan.options, by=by)


async def create_missing(broker: BrokerContext, name: str, quota: MutationQuota) -> TopicImage:
    """Create a topic that a client has requested, with the broker's defaults. For an internal topic, call
    `create_internal` and raise its error.

    For another topic, count its partitions against `quota`. Raises ThrottlingQuotaExceededError if that is exceeded;
    LeaderNotAvailableError, after which the client retries, if the controller is unreachable or this broker does not
    receive the topic's metadata in time; and other errors of `plan` and of the controller.
    """
    if name in INTERNAL:
        return await create_internal(broker, name)
    planned = plan(broker, name)
    quota.record(len(planned.assignment))
    try:
        return await create_anywhere(broker, planned)
    except UNREACHED as error:
        raise errors.LeaderNotAvailableError(error.message) from error


async def create_internal(broker: BrokerContext, name: str) -> TopicImage:
    """Return an internal topic; create it if necessary.

    Raises CoordinatorNotAvailableError if it cannot be created now, or exists but this broker has not received its
    metadata yet.
    """
    topic = broker.image.topics.get(name)
    if topic is not None:
        return topic
    count, factor, options = INTERNAL[name](broker.config)
    if not broker.config.in_cluster:  # otherwise wait for the other brokers to register
        factor = min(factor, len(broker.image.brokers))
        if (min_isr := options.get("min.insync.replicas")) is not None:
            # otherwise a single broker could never write to it
            options["min.insync.replicas"] = str(min(int(min_isr), factor))
    try:
        try:
            return await create_anywhere(broker, plan(broker, name, count, factor, None, options))
        except errors.TopicAlreadyExistsError:
            return await _wait_for_topic(broker, name)  # another client has created it
    except errors.KafkaError as error:
        log.warning(
            "The internal topic %s is not available; trying to create it when it is needed again: %s", name, error
        )
        raise errors.CoordinatorNotAvailableError(error.message) from error


async def create_anywhere(broker: BrokerContext, topic_plan: TopicPlan, by: str = " (automatically)") -> TopicImage:
    """Create a planned topic. If another broker is the controller, send it the request, and wait for the metadata.

    Raises a KafkaError if the topic cannot be created, such as one in UNREACHED, and LeaderNotAvailableError if the
    metadata does not arrive within METADATA_WAIT_SECONDS.
    """
    try:
        return await create(broker, topic_plan, by)
    except errors.NotControllerError:
        await _ask_controller(broker, topic_plan)
        return await _wait_for_topic(broker, topic_plan.name)


async def _ask_controller(broker: BrokerContext, topic_plan: TopicPlan) -> None:
    seconds = broker.config.request_timeout_ms / 1000
    topic = CreatableTopic(
        name=topic_plan.name,
        num_partitions=len(topic_plan.assignment),
        replication_factor=len(topic_plan.assignment[0]),
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic_plan.options.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=broker.config.request_timeout_ms)
    controller_id = broker.image.controller_id
    answer = await broker.inter_broker.send(
        controller_id, request, FORWARDED_VERSION, timeout=seconds, purpose="forward"
    )
    for result in answer.topics:
        if result.error_code not in (0, errors.TopicAlreadyExistsError.code):
            raise errors.for_code(result.error_code)(result.error_message)


async def _wait_for_topic(broker: BrokerContext, name: str) -> TopicImage:
    """Wait until this broker has received the metadata of a topic, and return it.

    Raises LeaderNotAvailableError after METADATA_WAIT_SECONDS.
    """
    await broker.metadata_cache.wait_for(lambda image: name in image.topics, METADATA_WAIT_SECONDS)
    topic = broker.image.topics.get(name)
    if topic is None:
        raise errors.LeaderNotAvailableError(f"this broker has not received topic {name} from the controller yet")
    return topic


def _consumer_offsets(config: BrokerConfig) -> tuple[int, int, dict[str, str | None]]:
    options: dict[str, str | None] = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.offsets_topic_segment_bytes),
    }
    return config.offsets_topic_num_partitions, config.offsets_topic_replication_factor, options


def _transaction_state(config: BrokerConfig) -> tuple[int, int, dict[str, str | None]]:
    options: dict[str, str | None] = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(config.transaction_state_log_min_isr),
        "segment.bytes": str(config.transaction_state_log_segment_bytes),
        "unclean.leader.election.enable": "false",
    }
    return config.transaction_state_log_num_partitions, config.transaction_state_log_replication_factor, options


def _share_group_state(config: BrokerConfig) -> tuple[int, int, dict[str, str | None]]:
    options: dict[str, str | None] = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
        "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
    }
    factor = config.share_coordinator_state_topic_replication_factor
    return config.share_coordinator_state_topic_num_partitions, factor, options


def _remote_log_metadata(config: BrokerConfig) -> tuple[int, int, dict[str, str | None]]:
    factor = config.remote_log_metadata_topic_replication_factor
    options: dict[str, str | None] = {
        "cleanup.policy": "delete",
        "retention.ms": str(config.remote_log_metadata_topic_retention_ms),
        "retention.bytes": "-1",
        "min.insync.replicas": str(min(factor, config.remote_log_metadata_topic_min_isr)),
        "unclean.leader.election.enable": "false",
    }
    return config.remote_log_metadata_topic_num_partitions, factor, options


INTERNAL = {
    REMOTE_LOG_METADATA: _remote_log_metadata,
    CONSUMER_OFFSETS: _consumer_offsets,
    TRANSACTION_STATE: _transaction_state,
    SHARE_GROUP_STATE: _share_group_state,
}
"""Functions that return the number of partitions, the replication factor and the configs of an internal topic, by its
name.
"""


def check_options(
    options: Mapping[str, str | None], config: BrokerConfig, before: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the configs of a topic as text; raise InvalidConfigError for unknown configs and invalid values or
    combinations.

    `before`: the current configs of a topic that exists.
    """
    checked: dict[str, str] = {}
    for key, value in options.items():
        option = TopicConfig.options.get(key)
        if option is None:
            raise errors.InvalidConfigError(f"Unknown topic config name: {key}")
        if value is None:
            raise errors.InvalidConfigError(f"Null value not supported for topic configs: {key}")
        checked[key] = value
    try:
        topic = TopicConfig({**topic_defaults(config.originals), **checked})
    except errors.ConfigurationError as error:
        raise errors.InvalidConfigError(error.message) from None
    if topic.ottla_table_partition_by:
        _check_table(topic)
    if topic.remote_storage_enable:
        _check_tiered(topic, config)
    elif (before or {}).get("remote.storage.enable") == "true" and not topic.remote_log_delete_on_disable:
        raise errors.InvalidConfigError(
            "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote data "
            "and turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If you want "
            "to disable remote storage and delete all remote data, please set "
            "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
        )
    return checked


def _check_table(topic: TopicConfig) -> None:
    """Check the table schema and partitioning of a topic together. Raises InvalidConfigError."""
    from ottla.table_fields import check_partition_by  # a start without tables does not load it

    try:
        check_partition_by(topic.ottla_table_schema, topic.ottla_table_partition_by)
    except ValueError as error:
        raise errors.InvalidConfigError(str(error)) from None


def _check_tiered(topic: TopicConfig, config: BrokerConfig) -> None:
    """Check the configs of a tiered topic. Raises InvalidConfigError, with Kafka's messages."""
    if not config.remote_log_storage_system_enable:
        raise errors.InvalidConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    if "compact" in topic.cleanup_policy:
        raise errors.InvalidConfigError("Remote log storage is unsupported for the compacted topics")
    for unit in ("ms", "bytes"):
        local, total = topic.values[f"local.retention.{unit}"], topic.values[f"retention.{unit}"]
        if topic.remote_log_copy_disable and local not in (-2, total):
            raise errors.InvalidConfigError(
                f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and `retention.{unit}` "
                "must be set to the identical value because there will be no more logs copied to the remote storage."
            )
        if total >= 0 and (local == -1 or local > total):
            raise errors.InvalidConfigError(
                f"Value {local} for configuration local.retention.{unit}: Value must not be more than property: "
                f"retention.{unit} value {total}."
            )
