"""ListConfigResources (key 74): the names of resources with options (KIP-714, KIP-1142).

- 0 knows client metrics only; 1 asks by type
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class ListConfigResourcesRequest(Request["ListConfigResourcesResponse"], api_key=74, versions="0-1", flexible="0+"):
    """Which types of resources; none for all."""

    resource_types: list[int] = f.array(f.int8(), "1+")


class ConfigResource(Struct):
    """One resource."""

    resource_name: str = f.string("0+")
    resource_type: int = f.int8("1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Response, api_key=74, versions="0-1", flexible="0+"):
    """The answer."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    config_resources: list[ConfigResource] = f.array(ConfigResource, "0+")
