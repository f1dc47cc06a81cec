"""DeleteTopics (key 20): delete topics with all their records.

- version 1 adds the throttle time; 2 throttles only after the response (KIP-219); 3 may answer TOPIC_DELETION_DISABLED
- 4 is flexible; 5 adds messages to errors and THROTTLING_QUOTA_EXCEEDED; 6 names topics by name or by id
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class DeleteTopicState(Struct):
    """One topic, by name or by id."""

    name: str | None = f.string("6+", nullable="6+", default=None)
    topic_id: UUID = f.uuid("6+")


class DeleteTopicsRequest(Request["DeleteTopicsResponse"], api_key=20, versions="0-6", flexible="4+"):
    """The topics to delete: by name, or from version 6 on by name or id."""

    topics: list[DeleteTopicState] = f.array(DeleteTopicState, "6+")
    topic_names: list[str] = f.array(f.string(), "0-5", ignorable=True)
    timeout_ms: int = f.int32("0+")


class DeletableTopicResult(Struct):
    """The outcome of one topic."""

    name: str | None = f.string("0+", nullable="6+")
    topic_id: UUID = f.uuid("6+", ignorable=True)
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsResponse(Response, api_key=20, versions="0-6", flexible="4+"):
    """The outcome of each topic."""

    throttle_time_ms: int = f.int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = f.array(DeletableTopicResult, "0+")
