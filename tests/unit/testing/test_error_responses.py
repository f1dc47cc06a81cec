"""Generated error responses with an error in each of their items."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from ottla.broker.sessions.fetch_sessions import FetchSessions
from ottla.errors import NotCoordinatorError
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from ottla.testing.error_responses import fetch_response, overwrite

ERROR = NotCoordinatorError("for a test")


def context(sessions: FetchSessions) -> Any:
    return SimpleNamespace(broker=SimpleNamespace(fetch_sessions=sessions))


def test_fetch_error_response_has_all_partitions_of_the_session() -> None:
    sessions = FetchSessions(1)
    topic_id = UUID(int=7)
    topics = [FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=n) for n in range(2)])]
    opened = sessions.context(FetchRequest(topics=topics, session_epoch=0), 13)
    request = FetchRequest(session_id=opened.session_id, session_epoch=1)
    response: Any = fetch_response(request, ERROR, context(sessions))
    (topic,) = response.responses
    assert (topic.topic_id, [p.partition_index for p in topic.partitions]) == (topic_id, [0, 1])
    assert response.session_id == 0


def test_overwrite_sets_the_error_at_all_levels_of_a_response() -> None:
    topic = MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition(partition_index=0)])
    response = MetadataResponse(topics=[topic])
    overwrite(response, 9, ERROR)
    assert (topic.error_code, topic.partitions[0].error_code, response.error_code) == (ERROR.code, ERROR.code, 0)
