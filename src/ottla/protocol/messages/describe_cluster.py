"""DescribeCluster (key 60): the brokers of the cluster (KIP-700).

- version 1 can request controllers instead of brokers; 2 can include fenced brokers
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class DescribeClusterRequest(Request["DescribeClusterResponse"], api_key=60, versions="0-2", flexible="0+"):
    """The kind of endpoints, and the details to include."""

    include_cluster_authorized_operations: bool = f.boolean("0+")
    # 1 brokers, 2 controllers.
    endpoint_type: int = f.int8("1+", default=1)
    include_fenced_brokers: bool = f.boolean("2+")


class DescribeClusterBroker(Struct):
    """One broker (or controller) and its address."""

    broker_id: int = f.int32("0+")
    host: str = f.string("0+")
    port: int = f.int32("0+")
    rack: str | None = f.string("0+", nullable="0+", default=None)
    is_fenced: bool = f.boolean("2+")


class DescribeClusterResponse(Response, api_key=60, versions="0-2", flexible="0+"):
    """The id of the cluster, its controller, and its brokers or controllers."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)
    endpoint_type: int = f.int8("1+", default=1)
    cluster_id: str = f.string("0+")
    controller_id: int = f.int32("0+", default=-1)
    brokers: list[DescribeClusterBroker] = f.array(DescribeClusterBroker, "0+")
    cluster_authorized_operations: int = f.int32("0+", default=-0x8000_0000)
