"""DescribeConfigs: the configs of a resource, with the source of each value.

As in Kafka, a broker of a cluster reads them from the metadata store first, because the client may have just set a
config at another broker, whose notification has not arrived here yet.

Requires DESCRIBE_CONFIGS on the topic or group; on the cluster for brokers, their loggers and client metrics.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator

from ottla.broker.config.config_entries import DEFAULT_CONFIG, Entry
from ottla.broker.config.resources.resource import Resource
from ottla.broker.config.resources.table import BROKER, permitted
from ottla.broker.error_responses import errors_in
from ottla.broker.request_context import RequestContext
from ottla.cluster.store import config_entities
from ottla.errors import KafkaError
from ottla.model import ACLOperation
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

ResourceOrError = Resource | KafkaError
"""A resource type, or the reason why the client does not get its configs."""
RequestedResources = list[tuple[DescribeConfigsResource, ResourceOrError]]


def handle(
    request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse | Awaitable[DescribeConfigsResponse]:
    """Describe each resource. An error of one does not affect the others."""
    resources = [(requested, _find(requested, context)) for requested in request.resources]
    if not context.broker.config.in_cluster:
        return _response(request, resources, context)  # no other broker can have written
    return _read_and_respond(request, resources, context)


def _find(requested: DescribeConfigsResource, context: RequestContext) -> ResourceOrError:
    try:
        return permitted(requested.resource_type, requested.resource_name, ACLOperation.DESCRIBE_CONFIGS, context)
    except KafkaError as error:
        return error


async def _read_and_respond(
    request: DescribeConfigsRequest, resources: RequestedResources, context: RequestContext
) -> DescribeConfigsResponse:
    await context.broker.config_store.refresh(list(_paths(resources, context)))
    return _response(request, resources, context)


def _paths(resources: RequestedResources, context: RequestContext) -> Iterator[str]:
    """Yield the paths of the resources' configs. Resources with an error are left out; `_describe` reports it."""
    for requested, resource in resources:
        if isinstance(resource, KafkaError):
            continue
        try:
            resource.options(requested.resource_name, context)
        except KafkaError:
            continue
        path = resource.path(requested.resource_name)
        if path is not None:
            yield path
        if requested.resource_type == BROKER and requested.resource_name:
            yield config_entities.entity(config_entities.BROKERS, None)  # the configs of all brokers are shown, too


def _response(
    request: DescribeConfigsRequest, resources: RequestedResources, context: RequestContext
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_describe(requested, resource, request, context) for requested, resource in resources]
    )


def _describe(
    requested: DescribeConfigsResource,
    resource: ResourceOrError,
    request: DescribeConfigsRequest,
    context: RequestContext,
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=requested.resource_type, resource_name=requested.resource_name)
    result.error_message = None
    keys = requested.configuration_keys
    with errors_in(result):
        if isinstance(resource, KafkaError):
            raise resource
        entries = resource.entries(requested.resource_name, context)
        result.configs = [_option(entry, request) for entry in entries if not keys or entry.name in keys]
    return result


def _option(entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = []
    if request.include_synonyms:
        synonyms = [DescribeConfigsSynonym(name=n, value=v, source=s) for n, v, s in entry.synonyms]
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
