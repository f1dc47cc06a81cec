"""ApiVersions (key 18): the APIs that the broker serves, with their versions. Clients usually send it first (KIP-35).

A broker that does not know the request's version answers UNSUPPORTED_VERSION in the layout of version 0, with the
versions of ApiVersions itself in the list, so the client can repeat the request. The response header is always
version 0 for the same reason: the client cannot know yet what the broker will choose.

- version 1 adds the throttle time; 2 throttles only after the response (KIP-219)
- 3 is flexible; the client sends its software's name, the broker its features (KIP-511, KIP-584)
- 4 can list features whose lowest version is 0; 5 carries the cluster and node that the client expects, so that
  a wrong address can be detected (KIP-1242)
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class ApiVersionsRequest(Request["ApiVersionsResponse"], api_key=18, versions="0-5", flexible="3+"):
    """The client's software (from version 3 on), and the cluster and node that it expects (from version 5 on)."""

    client_software_name: str = f.string("3+", ignorable=True)
    client_software_version: str = f.string("3+", ignorable=True)
    cluster_id: str | None = f.string("5+", nullable="5+", default=None, ignorable=True)
    node_id: int = f.int32("5+", default=-1, ignorable=True)


class ApiVersion(Struct):
    """One API with its first and last version."""

    api_key: int = f.int16("0+")
    min_version: int = f.int16("0+")
    max_version: int = f.int16("0+")


class SupportedFeatureKey(Struct):
    """A feature that the broker supports, with its lowest and highest level."""

    name: str = f.string("3+")
    min_version: int = f.int16("3+")
    max_version: int = f.int16("3+")


class FinalizedFeatureKey(Struct):
    """A feature that the whole cluster uses, with its lowest and highest level."""

    name: str = f.string("3+")
    max_version_level: int = f.int16("3+")
    min_version_level: int = f.int16("3+")


class ApiVersionsResponse(Response, api_key=18, versions="0-5", flexible="3+"):
    """The APIs and features of the broker."""

    error_code: int = f.int16("0+")
    api_keys: list[ApiVersion] = f.array(ApiVersion, "0+")
    throttle_time_ms: int = f.int32("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = f.array(SupportedFeatureKey, "3+", ignorable=True, tag=0)
    finalized_features_epoch: int = f.int64("3+", default=-1, ignorable=True, tag=1)
    finalized_features: list[FinalizedFeatureKey] = f.array(FinalizedFeatureKey, "3+", ignorable=True, tag=2)
    zk_migration_ready: bool = f.boolean("3+", ignorable=True, tag=3)
