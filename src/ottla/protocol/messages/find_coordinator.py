"""FindCoordinator (key 10): find the coordinators of groups, transactional ids and share partitions.

- version 0 supports groups only; 1 adds the key's type (0 group, 1 transaction) and the throttle time; 3 is flexible
- 4 looks up several keys at once, in separate fields; 5 may answer TRANSACTION_ABORTABLE (KIP-890)
- 6 adds the coordinators of share partitions (type 2, KIP-932)
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class FindCoordinatorRequest(Request["FindCoordinatorResponse"], api_key=10, versions="0-6", flexible="3+"):
    """The groups, transactional ids or share partitions whose coordinators are looked up."""

    key: str = f.string("0-3")
    # 0 group, 1 transaction, 2 share partition.
    key_type: int = f.int8("1+")
    coordinator_keys: list[str] = f.array(f.string(), "4+")


class Coordinator(Struct):
    """The coordinator of one key: its id and address, or an error."""

    key: str = f.string("4+")
    node_id: int = f.int32("4+")
    host: str = f.string("4+")
    port: int = f.int32("4+")
    error_code: int = f.int16("4+")
    error_message: str | None = f.string("4+", nullable="4+", ignorable=True)


class FindCoordinatorResponse(Response, api_key=10, versions="0-6", flexible="3+"):
    """The coordinators of the keys."""

    throttle_time_ms: int = f.int32("1+", ignorable=True)
    error_code: int = f.int16("0-3")
    error_message: str | None = f.string("1-3", nullable="1-3", ignorable=True)
    node_id: int = f.int32("0-3")
    host: str = f.string("0-3")
    port: int = f.int32("0-3")
    coordinators: list[Coordinator] = f.array(Coordinator, "4+")
