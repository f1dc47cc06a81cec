"""AlterConfigs (key 33): replace all configs of a resource (KIP-133). Prefer IncrementalAlterConfigs.

- since 1, throttling follows the response (KIP-219); 2 is flexible
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class AlterableConfig(Struct):
    """One config. The broker rejects None as a value; a config that is left out is removed."""

    name: str = f.string("0+")
    value: str | None = f.string("0+", nullable="0+")


class AlterConfigsResource(Struct):
    """One resource, and all configs that it is to have."""

    resource_type: int = f.int8("0+")
    resource_name: str = f.string("0+")
    configs: list[AlterableConfig] = f.array(AlterableConfig, "0+")


class AlterConfigsRequest(Request["AlterConfigsResponse"], api_key=33, versions="0-2", flexible="2+"):
    """The resources, each with all configs that it is to have."""

    resources: list[AlterConfigsResource] = f.array(AlterConfigsResource, "0+")
    validate_only: bool = f.boolean("0+")


class AlterConfigsResourceResponse(Struct):
    """The outcome of one resource."""

    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")
    resource_type: int = f.int8("0+")
    resource_name: str = f.string("0+")


class AlterConfigsResponse(Response, api_key=33, versions="0-2", flexible="2+"):
    """The outcome of each resource."""

    throttle_time_ms: int = f.int32("0+")
    responses: list[AlterConfigsResourceResponse] = f.array(AlterConfigsResourceResponse, "0+")
