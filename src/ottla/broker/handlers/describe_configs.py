"""DescribeConfigs: the options of a resource, with where each value comes from. Served in all versions.

In a cluster they are read from the registry first, as Kafka does: who has just set an option at one broker may ask the
next, which has not heard of it yet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator

from ottla.broker.config_entries import DEFAULT_CONFIG, Entry
from ottla.broker.resources.table import resource
from ottla.broker.services import Call
from ottla.errors import KafkaError, code_of
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def handle(request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse | Awaitable[DescribeConfigsResponse]:
    """Describe each resource; one that fails does not stop the others."""
    if call.services.config.zookeeper_connect is None:
        return _answer(request, call)  # nobody else sets any
    return _read_and_answer(request, call)


async def _read_and_answer(request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    await call.services.options.refresh(list(_paths(request, call)))
    return _answer(request, call)


def _paths(request: DescribeConfigsRequest, call: Call) -> Iterator[str]:
    """Where the options are kept of those that are there; of the others the answer tells what is wrong."""
    for asked in request.resources:
        try:
            found = resource(asked.resource_type)
            found.options(asked.resource_name, call)
        except KafkaError:
            continue
        path = found.path(asked.resource_name)
        if path is not None:
            yield path


def _answer(request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_describe(asked, request, call) for asked in request.resources])


def _describe(asked: DescribeConfigsResource, request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=asked.resource_type, resource_name=asked.resource_name)
    result.error_message = None
    wanted = asked.configuration_keys
    try:
        entries = resource(asked.resource_type).entries(asked.resource_name, call)
        result.configs = [_option(entry, request) for entry in entries if not wanted or entry.name in wanted]
    except KafkaError as error:
        result.error_code, result.error_message = code_of(error), error.message
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
