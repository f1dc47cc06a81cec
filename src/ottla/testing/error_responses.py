"""Error responses to Fetch, and to requests whose response must contain more than errors. `broker/error_responses`
creates those of other APIs.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from ottla.broker.error_responses import ERROR_CODES
from ottla.broker.request_context import RequestContext
from ottla.broker.sessions.fetch_sessions import PartitionKey
from ottla.errors import KafkaError, code_of
from ottla.protocol.message import Struct
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

OVERWRITTEN: Final = frozenset({"Metadata"})
"""APIs whose response must contain more than errors. The request is handled, and the error is put into its response."""


def fetch_response(request: FetchRequest, error: KafkaError, context: RequestContext) -> FetchResponse:
    """Return a response with the error in each partition of the request and of the fetch session that it names.

    The response has no fetch session id, so the client opens a new session: the broker's session has not advanced.
    """
    named = [PartitionKey(t.topic, t.topic_id, p.partition) for t in request.topics for p in t.partitions]
    named += context.broker.fetch_sessions.partitions(request.session_id)
    topics: dict[tuple[str, UUID], list[PartitionData]] = {}
    for topic, topic_id, partition in dict.fromkeys(named):
        data = PartitionData(partition_index=partition, error_code=code_of(error), high_watermark=-1, records=None)
        topics.setdefault((topic, topic_id), []).append(data)
    return FetchResponse(
        responses=[
            FetchableTopicResponse(topic=topic, topic_id=topic_id, partitions=partitions)
            for (topic, topic_id), partitions in topics.items()
        ]
    )


def overwrite(response: Struct, version: int, error: KafkaError) -> None:
    """Set every error code in a response, also within its arrays, to that of `error`. `version` is the API version."""
    target: Any = response
    for field in response.FIELDS:
        if not field.in_version(version):
            continue
        if field.name in ERROR_CODES:
            setattr(target, field.name, code_of(error))
        for item in getattr(target, field.name) or () if field.kind == "array" else ():
            if isinstance(item, Struct):
                overwrite(item, version, error)
