"""IncrementalAlterConfigs (key 44): change individual configs of a resource (KIP-339).

- version 1 is flexible
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class AlterableConfig(Struct):
    """One change of a config: set, delete, append or subtract."""

    name: str = f.string("0+")
    # 0 set, 1 delete, 2 append to a list, 3 subtract from a list.
    config_operation: int = f.int8("0+")
    value: str | None = f.string("0+", nullable="0+")


class AlterConfigsResource(Struct):
    """One resource, and the changes of its configs."""

    resource_type: int = f.int8("0+")
    resource_name: str = f.string("0+")
    configs: list[AlterableConfig] = f.array(AlterableConfig, "0+")


class IncrementalAlterConfigsRequest(
    Request["IncrementalAlterConfigsResponse"], api_key=44, versions="0-1", flexible="1+"
):
    """The resources, and the changes of their configs. With `validate_only`, the broker only checks them."""

    resources: list[AlterConfigsResource] = f.array(AlterConfigsResource, "0+")
    validate_only: bool = f.boolean("0+")


class AlterConfigsResourceResponse(Struct):
    """The outcome of one resource."""

    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")
    resource_type: int = f.int8("0+")
    resource_name: str = f.string("0+")


class IncrementalAlterConfigsResponse(Response, api_key=44, versions="0-1", flexible="1+"):
    """The outcome of each resource."""

    throttle_time_ms: int = f.int32("0+")
    responses: list[AlterConfigsResourceResponse] = f.array(AlterConfigsResourceResponse, "0+")
