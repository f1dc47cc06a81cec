"""DescribeConfigs: the options of a resource, with where each value comes from. Served in all versions."""

from __future__ import annotations

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


def handle(request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    """Describe each resource; one that fails does not stop the others."""
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
