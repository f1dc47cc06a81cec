"""DeleteShareGroupOffsets (key 92): delete a share group's offsets in topics (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class DeleteShareGroupOffsetsRequestTopic(Struct):
    """A topic whose offsets are deleted."""

    topic_name: str = f.string("0+")


class DeleteShareGroupOffsetsRequest(
    Request["DeleteShareGroupOffsetsResponse"], api_key=92, versions="0", flexible="0+"
):
    """The share group, and the topics whose offsets are deleted."""

    group_id: str = f.string("0+")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = f.array(DeleteShareGroupOffsetsRequestTopic, "0+")


class DeleteShareGroupOffsetsResponseTopic(Struct):
    """The outcome of one topic."""

    topic_name: str = f.string("0+")
    topic_id: UUID = f.uuid("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)


class DeleteShareGroupOffsetsResponse(Response, api_key=92, versions="0", flexible="0+"):
    """The outcome of each topic."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = f.array(DeleteShareGroupOffsetsResponseTopic, "0+")
