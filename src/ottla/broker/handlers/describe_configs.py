"""DescribeConfigs: the options of topics and brokers, with where each value comes from. Served in all versions."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.config_entries import DEFAULT_CONFIG, Entry, broker_entries, topic_entries
from ottla.broker.services import Call
from ottla.cluster.topics import check_name
from ottla.errors import InvalidRequestError, KafkaError, UnknownTopicOrPartitionError, code_of
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

TOPIC = 2
BROKER = 4


def handle(request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    """Describe each resource; one that fails does not stop the others."""
    return DescribeConfigsResponse(results=[_describe(resource, request, call) for resource in request.resources])


def _describe(resource: DescribeConfigsResource, request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    result.error_message = None
    try:
        wanted = resource.configuration_keys
        result.configs = [
            _option(entry, request)
            for entry in _entries(resource, call)
            if wanted is None or not wanted or entry.name in wanted
        ]
    except KafkaError as error:
        result.error_code, result.error_message = code_of(error), error.message
    return result


def _entries(resource: DescribeConfigsResource, call: Call) -> Iterable[Entry]:
    services, name = call.services, resource.resource_name
    if resource.resource_type == TOPIC:
        check_name(name)
        topic = services.image.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartitionError(f"Topic '{name}' does not exist.")
        return topic_entries(services.config, topic.options)
    if resource.resource_type == BROKER:
        if name == "":
            return ()  # options set for all brokers while they run: there are none
        if not name.isdigit() or int(name) not in services.image.brokers:
            raise InvalidRequestError(f"Unexpected broker id {name!r}; known: {sorted(services.image.brokers)}")
        return broker_entries(services.config)
    raise InvalidRequestError(f"resource type {resource.resource_type} has no options here")


def _option(entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = []
    if request.include_synonyms:
        synonyms = [DescribeConfigsSynonym(name=entry.name, value=entry.value, source=entry.source)]
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        is_default=entry.source == DEFAULT_CONFIG,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=synonyms,
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )
