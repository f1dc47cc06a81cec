"""DescribeConfigs (key 32): the configs of topics, brokers and other resources (KIP-133).

- version 1 adds the source of a value, and its synonyms; 2 throttles only after the response (KIP-219)
- 3 adds types and documentation; 4 is flexible
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class DescribeConfigsResource(Struct):
    """One resource, and the names of the configs to return; None for all."""

    # 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.
    resource_type: int = f.int8("0+")
    resource_name: str = f.string("0+")
    configuration_keys: list[str] | None = f.array(f.string(), "0+", nullable="0+")


class DescribeConfigsRequest(Request["DescribeConfigsResponse"], api_key=32, versions="0-4", flexible="4+"):
    """The resources to describe, and whether to include synonyms and documentation."""

    resources: list[DescribeConfigsResource] = f.array(DescribeConfigsResource, "0+")
    include_synonyms: bool = f.boolean("1+")
    include_documentation: bool = f.boolean("3+")


class DescribeConfigsSynonym(Struct):
    """The value that one source has for the config. The sources are in the order of their precedence."""

    name: str = f.string("1+")
    value: str | None = f.string("1+", nullable="0+")
    source: int = f.int8("1+")


class DescribeConfigsResourceResult(Struct):
    """One config: its value, source, type and synonyms."""

    name: str = f.string("0+")
    # None if there is no value, or it must not be shown.
    value: str | None = f.string("0+", nullable="0+")
    read_only: bool = f.boolean("0+")
    is_default: bool = f.boolean("0")
    # 1 topic, 2 broker, 3 all brokers, 4 broker's file, 5 default, 6 broker logger, 7 client metrics, 8 group.
    config_source: int = f.int8("1+", default=-1, ignorable=True)
    is_sensitive: bool = f.boolean("0+")
    synonyms: list[DescribeConfigsSynonym] = f.array(DescribeConfigsSynonym, "1+", ignorable=True)
    # 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password.
    config_type: int = f.int8("3+", ignorable=True)
    documentation: str | None = f.string("3+", nullable="0+", ignorable=True)


class DescribeConfigsResult(Struct):
    """One resource with its configs, or an error."""

    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")
    resource_type: int = f.int8("0+")
    resource_name: str = f.string("0+")
    configs: list[DescribeConfigsResourceResult] = f.array(DescribeConfigsResourceResult, "0+")


class DescribeConfigsResponse(Response, api_key=32, versions="0-4", flexible="4+"):
    """The configs of the resources."""

    throttle_time_ms: int = f.int32("0+")
    results: list[DescribeConfigsResult] = f.array(DescribeConfigsResult, "0+")
