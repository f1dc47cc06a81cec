"""Errors of subscribed topics, which poll() raises. A part of Kafka's `Metadata`.

Each error in metadata is raised once, and at once. While polls continue, metadata is requested again now and then, so
that a consumer continues once it is authorized.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from ottla import errors
from ottla.client.consumer.subscription import Subscription
from ottla.client.core.metadata import Cluster, Metadata, error_text

FATAL_TOPIC_ERRORS: Final = (errors.TopicAuthorizationFailedError, errors.InvalidTopicError)
"""Errors of topics that poll() raises. Others may pass: the consumer waits for a topic that does not exist yet."""


def topic_error(cluster: Cluster, topics: Iterable[str]) -> errors.KafkaError | None:
    """Return the error of topics, with their names; None if there is none."""
    infos = [info for topic in topics if (info := cluster.topics.get(topic)) is not None]
    for error in FATAL_TOPIC_ERRORS:
        names = sorted(info.name for info in infos if info.error is error)
        if names:
            return error(f"topics {', '.join(map(repr, names))}: {error_text(error, 'Read', names[0])}")
    return None


class TopicErrors:
    """The topic errors of one consumer. Event loop only, except for `pending`, which the polling thread reads."""

    def __init__(self, metadata: Metadata, subscription: Subscription, ask_after: float) -> None:
        self.metadata = metadata
        self.subscription = subscription
        self.pending = False
        """Whether there is an error: the next poll must raise it, or request metadata again."""
        self._ask_after = ask_after
        self._raised_version = -1

    def subscribed(self) -> None:
        """Handle a new subscription. Known metadata may be outdated: only errors of the next response are raised."""
        self.metadata_updated()
        if self.pending:
            self._raised_version = self.metadata.version
            self.metadata.request_update()

    def metadata_updated(self) -> None:
        """Handle a new snapshot of the metadata."""
        self.pending = self._current_error() is not None

    def check(self) -> None:
        """Raise an error that has not been raised yet. Called by each poll."""
        if not self.pending:
            return
        error = self._current_error()
        self.pending = error is not None
        if error is not None and self._raised_version != self.metadata.version:
            self._raised_version = self.metadata.version
            raise error
        if error is not None and time.monotonic() - self.metadata.updated_at >= self._ask_after:
            self.metadata.request_update()

    def _current_error(self) -> errors.KafkaError | None:
        if self.subscription.pattern is not None:
            return None  # a pattern matches only topics that may be described
        topics = self.subscription.topics or {tp.topic for tp in self.subscription.partitions}
        return topic_error(self.metadata.cluster, topics)
