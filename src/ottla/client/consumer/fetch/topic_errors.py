"""Errors of subscribed and assigned topics, which poll() raises. Part of Kafka's `Metadata`.

The next poll after a metadata response with an error raises it. While there is an error, polls request the metadata
from time to time, so that a consumer continues once it is authorized.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from ottla import errors
from ottla.client.consumer.subscription import Subscription
from ottla.client.core.metadata import Cluster, Metadata, error_text
from ottla.model import ACLOperation

FATAL_TOPIC_ERRORS: Final = (errors.TopicAuthorizationFailedError, errors.InvalidTopicError)
"""Errors of topics that poll() raises. Other errors may disappear: the consumer waits for a topic that does not exist
yet.
"""


def topic_error(cluster: Cluster, topics: Iterable[str]) -> errors.KafkaError | None:
    """Return an error with the names of the topics that have it; None if no topic has one of FATAL_TOPIC_ERRORS."""
    infos = [info for topic in topics if (info := cluster.topics.get(topic)) is not None]
    for error in FATAL_TOPIC_ERRORS:
        names = sorted(info.name for info in infos if info.error is error)
        if names:
            return error(f"topics {', '.join(map(repr, names))}: {error_text(error, ACLOperation.READ, names[0])}")
    return None


class TopicErrors:
    """The topic errors of one consumer. Event loop only, except for `pending`, which the polling thread reads."""

    def __init__(self, metadata: Metadata, subscription: Subscription, refresh_after: float) -> None:
        self.metadata = metadata
        self.subscription = subscription
        self.pending = False
        """Whether a subscribed or assigned topic has one of FATAL_TOPIC_ERRORS, so that polls have to call `check`."""
        self._refresh_after = refresh_after
        self._raised_version = -1

    def subscribed(self) -> None:
        """Handle a new subscription. The metadata at hand may be outdated: only errors in the next response are
        raised.
        """
        self.metadata_updated()
        if self.pending:
            self._raised_version = self.metadata.version
            self.metadata.request_update()

    def metadata_updated(self) -> None:
        """Set `pending` according to the current metadata."""
        self.pending = self._current_error() is not None

    def check(self) -> None:
        """Raise the current error, once for each metadata response. After that, request metadata if it is old."""
        if not self.pending:
            return
        error = self._current_error()
        self.pending = error is not None
        if error is not None and self._raised_version != self.metadata.version:
            self._raised_version = self.metadata.version
            raise error
        if error is not None and time.monotonic() - self.metadata.updated_at >= self._refresh_after:
            self.metadata.request_update()

    def _current_error(self) -> errors.KafkaError | None:
        if self.subscription.pattern is not None:
            return None  # a pattern matches only topics that may be described
        topics = self.subscription.topics or {tp.topic for tp in self.subscription.partitions}
        return topic_error(self.metadata.cluster, topics)
