"""ListConfigResources (key 74): the names of resources that can have configs (KIP-714, KIP-1142).

- version 0 lists client metrics only; 1 can select types
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class ListConfigResourcesRequest(Request["ListConfigResourcesResponse"], api_key=74, versions="0-1", flexible="0+"):
    """The types of resources to list (from version 1 on); an empty list for all."""

    resource_types: list[int] = f.array(f.int8(), "1+")


class ConfigResource(Struct):
    """One resource: its name, and from version 1 on its type."""

    resource_name: str = f.string("0+")
    resource_type: int = f.int8("1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Response, api_key=74, versions="0-1", flexible="0+"):
    """The resources of the requested types, or an error code."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    config_resources: list[ConfigResource] = f.array(ConfigResource, "0+")
