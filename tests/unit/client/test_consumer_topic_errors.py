"""Errors of topics and groups that poll() raises until the client is authorized, and warnings about missing topics."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.client.consuming import TP, consumer, fill, poll_until, read
from tests.unit.client.scripted import SILENCE, ScriptedBroker

from ottla import KafkaConsumer, TopicPartition, aio
from ottla.client.consumer.fetch import topic_errors
from ottla.client.core.coordinator import group_error
from ottla.errors import (
    GroupAuthorizationFailedError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

ALWAYS = 100_000
TOPIC_UNAUTHORIZED = TopicAuthorizationFailedError.code or 0
GROUP_UNAUTHORIZED = GroupAuthorizationFailedError.code or 0
SECRET = TopicPartition("secret", 0)
PROMPTLY = 5.0
"""In seconds. An error that is not raised at once takes a minute or more."""


@pytest.fixture
def unauthorized(broker: ScriptedBroker) -> set[str]:
    """Topics that the client is not authorized to describe; a test can change the set."""
    names = {"secret"}
    broker.add_topic("secret")
    deny_topics(broker, names, TOPIC_UNAUTHORIZED)
    return names


def deny_topics(broker: ScriptedBroker, names: set[str], code: int) -> None:
    def respond(request: MetadataRequest) -> Any:
        response: Any = broker._metadata(request)
        if request.topics is None:
            response.topics = [topic for topic in response.topics if topic.name not in names]
        for topic in response.topics:
            if topic.name in names:
                topic.error_code, topic.partitions = code, []
        return response

    broker.on(MetadataRequest, respond, times=ALWAYS)


def assert_raises_promptly(call: Callable[[], Any], error: type[KafkaError], match: str) -> None:
    began = time.monotonic()
    with pytest.raises(error, match=match):
        call()
    assert time.monotonic() - began < PROMPTLY


# Topics


@pytest.mark.parametrize("group_id", [None, "g"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_poll_raises_topic_authorization_failed_until_the_topic_is_authorized(
    broker: ScriptedBroker, unauthorized: set[str], group_id: str | None, protocol: str
) -> None:
    with consumer(broker, "secret", group_id=group_id, group_protocol=protocol, retry_backoff_max_ms=20) as c:
        assert_raises_promptly(lambda: c.poll(timeout_ms=60_000), TopicAuthorizationFailedError, "topics 'secret'")
        assert_raises_promptly(lambda: next(c), TopicAuthorizationFailedError, "topics 'secret'")
        if protocol == "consumer" and group_id:
            return  # the scripted broker assigns no partitions to members
        unauthorized.clear()
        fill(broker, 3, topic="secret")
        assert len(read_after_authorization(c, 3)) == 3


def read_after_authorization(c: KafkaConsumer, count: int) -> list[Any]:
    """Return records; an error in an earlier response may be raised once more."""
    try:
        return read(c, count)
    except TopicAuthorizationFailedError:
        return read(c, count)


def test_poll_raises_topic_authorization_failed_before_the_group_is_joined(
    broker: ScriptedBroker, unauthorized: set[str]
) -> None:
    broker.on(JoinGroupRequest, lambda _: SILENCE, times=ALWAYS)
    with consumer(broker, "secret", group_id="g") as c:
        assert_raises_promptly(lambda: c.poll(timeout_ms=10_000), TopicAuthorizationFailedError, "'secret'")


def test_authorization_error_names_all_unauthorized_topics(broker: ScriptedBroker, unauthorized: set[str]) -> None:
    unauthorized.add("other")
    with consumer(broker, "t", "secret", "other") as c:
        assert_raises_promptly(
            lambda: c.poll(timeout_ms=60_000), TopicAuthorizationFailedError, "topics 'other', 'secret':"
        )


def test_authorized_topics_are_read_between_two_authorization_errors(
    broker: ScriptedBroker, unauthorized: set[str]
) -> None:
    fill(broker, 3)
    with consumer(broker, "t", "secret", retry_backoff_max_ms=60_000) as c:
        assert_raises_promptly(lambda: c.poll(timeout_ms=60_000), TopicAuthorizationFailedError, "'secret'")
        assert len(read(c, 3)) == 3


def test_topic_that_loses_authorization_is_reported_although_records_are_buffered(
    broker: ScriptedBroker, unauthorized: set[str]
) -> None:
    unauthorized.clear()
    fill(broker, 50)
    with consumer(broker, metadata_max_age_ms=50, max_poll_records=1) as c:
        c.assign([TP, SECRET])
        c.position(SECRET)
        read(c, 1)
        unauthorized.add("secret")
        count = len(broker.requests_of(MetadataRequest))
        # When the third request arrives, the client has processed the response to the second one.
        broker.wait_for(lambda: len(broker.requests_of(MetadataRequest)) >= count + 3)
        assert c._core.buffer.has_records
        assert_raises_promptly(lambda: c.poll(timeout_ms=60_000), TopicAuthorizationFailedError, "'secret'")


def test_invalid_topic_name_is_raised_by_poll(broker: ScriptedBroker) -> None:
    deny_topics(broker, {"no name"}, InvalidTopicError.code or 0)
    with consumer(broker, "no name") as c:
        assert_raises_promptly(lambda: c.poll(timeout_ms=60_000), InvalidTopicError, "topics 'no name'")


def test_pattern_subscription_excludes_unauthorized_topics(broker: ScriptedBroker, unauthorized: set[str]) -> None:
    fill(broker, 3)
    with consumer(broker) as c:
        c.subscribe(pattern="t|secret")
        assert len(read(c, 3)) == 3
        assert c.subscription() == {"t"}


def test_new_subscription_without_the_unauthorized_topic_is_read(
    broker: ScriptedBroker, unauthorized: set[str]
) -> None:
    fill(broker, 3)
    with consumer(broker, "secret") as c:
        assert_raises_promptly(lambda: c.poll(timeout_ms=60_000), TopicAuthorizationFailedError, "'secret'")
        c.subscribe(["t"])
        assert len(read(c, 3)) == 3
        c.subscribe(["secret"])
        assert_raises_promptly(lambda: c.poll(timeout_ms=60_000), TopicAuthorizationFailedError, "'secret'")


def test_asyncio_consumer_raises_topic_authorization_failed(broker: ScriptedBroker, unauthorized: set[str]) -> None:
    async def run() -> None:
        async with aio.KafkaConsumer("secret", bootstrap_servers=broker.address, retry_backoff_max_ms=100) as c:
            for call in (lambda: c.getmany(timeout_ms=60_000), lambda: c.poll(60_000), c.getone, c.__anext__):
                async with asyncio.timeout(PROMPTLY):
                    with pytest.raises(TopicAuthorizationFailedError, match="'secret'"):
                        await call()

    asyncio.run(run())


# Missing topics


def missing_topic_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for _, level, text in caplog.record_tuples if level == logging.WARNING and "does not exist" in text]


def metadata_responses(broker: ScriptedBroker, c: KafkaConsumer, count: int) -> None:
    """Poll until the client has processed further metadata responses."""
    end = len(broker.requests_of(MetadataRequest)) + count + 1
    poll_until(c, lambda: len(broker.requests_of(MetadataRequest)) >= end)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_missing_topic_is_logged_once_with_the_command_that_creates_it(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture, protocol: str
) -> None:
    with consumer(broker, "t", "miss ing", group_id="g", group_protocol=protocol, allow_auto_create_topics=False) as c:
        metadata_responses(broker, c, 3)
    command = f"ottla topics --bootstrap-server {broker.address} --create --topic 'miss ing'"
    assert missing_topic_warnings(caplog) == [
        f"Topic 'miss ing' does not exist; waiting until it is created. To create it: {command}"
    ]


def test_missing_topic_is_logged_again_if_it_was_created_and_deleted(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with consumer(broker, allow_auto_create_topics=False, metadata_max_age_ms=20) as c:
        c.assign([TopicPartition("later", 0)])
        metadata_responses(broker, c, 2)
        broker.add_topic("later")
        metadata_responses(broker, c, 2)
        assert len(missing_topic_warnings(caplog)) == 1
        del broker.topics["later"]
        metadata_responses(broker, c, 2)
    assert len(missing_topic_warnings(caplog)) == 2


def test_topic_that_the_broker_creates_in_time_is_not_logged(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_errors, "AUTO_CREATION_SECONDS", 60)
    with consumer(broker, "new") as c:
        metadata_responses(broker, c, 1)
        broker.add_topic("new")
        metadata_responses(broker, c, 0)
        fill(broker, 3, topic="new")
        assert len(read(c, 3)) == 3
    assert missing_topic_warnings(caplog) == []


def test_topic_that_the_broker_does_not_create_in_time_is_logged(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_errors, "AUTO_CREATION_SECONDS", 0.05)
    with consumer(broker, "missing") as c:
        poll_until(c, lambda: len(missing_topic_warnings(caplog)) == 1)


# Offsets


@pytest.mark.parametrize(
    "lookup",
    [
        lambda c: c.end_offsets([TP, SECRET]),
        lambda c: c.beginning_offsets([SECRET]),
        lambda c: c.offsets_for_times({SECRET: 0}),
        lambda c: (c.assign([SECRET]), c.position(SECRET)),
    ],
)
def test_offset_lookup_of_an_unauthorized_topic_fails_at_once(
    broker: ScriptedBroker, unauthorized: set[str], lookup: Callable[[KafkaConsumer], Any]
) -> None:
    with consumer(broker) as c:
        for _ in range(2):
            assert_raises_promptly(lambda: lookup(c), TopicAuthorizationFailedError, "topics 'secret'")
        unauthorized.clear()
        lookup(c)


def test_unknown_partition_is_looked_up_once_per_retry_backoff(broker: ScriptedBroker) -> None:
    with consumer(broker, retry_backoff_ms=200, default_api_timeout_ms=900) as c:
        c.partitions_for_topic("t")
        before = len(broker.requests_of(MetadataRequest))
        with pytest.raises(KafkaTimeoutError, match="t-9"):
            c.end_offsets([TopicPartition("t", 9)])
        assert len(broker.requests_of(MetadataRequest)) - before <= 6


def test_committed_of_an_unauthorized_topic_names_the_partition(broker: ScriptedBroker) -> None:
    part = OffsetFetchResponsePartitions(partition_index=0, error_code=TOPIC_UNAUTHORIZED)
    topics = [OffsetFetchResponseTopics(name="t", partitions=[part])]
    group = OffsetFetchResponseGroup(group_id="g", topics=topics)
    broker.on(OffsetFetchRequest, lambda _: OffsetFetchResponse(groups=[group]))
    with consumer(broker, group_id="g") as c:
        assert_raises_promptly(lambda: c.committed(TP), TopicAuthorizationFailedError, "t-0")


# Groups


def coordinator_error(request: Any) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(coordinators=[Coordinator(key="my-group", error_code=GROUP_UNAUTHORIZED)])


def offset_fetch_error(request: Any) -> OffsetFetchResponse:
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="my-group", error_code=GROUP_UNAUTHORIZED)])


def commit_error(request: Any) -> OffsetCommitResponse:
    part = OffsetCommitResponsePartition(partition_index=0, error_code=GROUP_UNAUTHORIZED)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[part])])


@pytest.mark.parametrize(
    ("request_type", "handler"),
    [
        (FindCoordinatorRequest, coordinator_error),
        (JoinGroupRequest, lambda _: JoinGroupResponse(error_code=GROUP_UNAUTHORIZED)),
        (SyncGroupRequest, lambda _: SyncGroupResponse(error_code=GROUP_UNAUTHORIZED)),
        (HeartbeatRequest, lambda _: HeartbeatResponse(error_code=GROUP_UNAUTHORIZED)),
        (OffsetFetchRequest, offset_fetch_error),
    ],
)
def test_group_authorization_error_names_the_group(broker: ScriptedBroker, request_type: Any, handler: Any) -> None:
    broker.on(request_type, handler, times=ALWAYS)
    with (
        consumer(broker, "t", group_id="my-group", heartbeat_interval_ms=20) as c,
        pytest.raises(GroupAuthorizationFailedError, match="my-group"),
    ):
        poll_until(c, lambda: False)


def test_group_authorization_error_has_the_command_of_the_broker_with_the_group() -> None:
    message = "READ on GROUP is required (ottla acls --group NAME)"
    assert str(group_error(GROUP_UNAUTHORIZED, "my-group", message)).endswith("acls --group my-group)")


def test_group_authorization_error_of_the_consumer_protocol_names_the_group(broker: ScriptedBroker) -> None:
    broker.on(
        ConsumerGroupHeartbeatRequest,
        lambda _: ConsumerGroupHeartbeatResponse(error_code=GROUP_UNAUTHORIZED, error_message=None),
        times=ALWAYS,
    )
    with (
        consumer(broker, "t", group_id="my-group", group_protocol="consumer") as c,
        pytest.raises(GroupAuthorizationFailedError, match="my-group"),
    ):
        poll_until(c, lambda: False)


def test_commit_without_group_authorization_names_the_group(broker: ScriptedBroker) -> None:
    broker.on(OffsetCommitRequest, commit_error)
    with consumer(broker, group_id="my-group") as c:
        c.assign([TP])
        assert_raises_promptly(lambda: c.commit({TP: 1}), GroupAuthorizationFailedError, "my-group")
