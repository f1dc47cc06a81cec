"""Topics that a consumer reads and that brokers will not describe: poll() says so. A part of Kafka's `Metadata`.

Each answer of a broker is told once, and at once. As long as polls go on, it is asked again now and then, so that a
consumer that is allowed to read meanwhile goes on by itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from ottla import errors
from ottla.client.consumer.subscription import Subscription
from ottla.client.core.metadata import Cluster, Metadata
from ottla.errors import KafkaError

TOLD: Final = (errors.TopicAuthorizationFailedError, errors.InvalidTopicError)
"""Errors of topics that poll() raises. Others may go away: a topic that does not exist yet is waited for."""


def topic_error(cluster: Cluster, topics: Iterable[str]) -> KafkaError | None:
    """The error, with their names, of those topics that are refused; None where none is."""
    infos = [info for topic in topics if (info := cluster.topics.get(topic)) is not None]
    for error in TOLD:
        names = sorted(info.name for info in infos if info.error is error)
        if names:
            return error(f"topics {', '.join(map(repr, names))}: {error.__doc__}")
    return None


class TopicErrors:
    """Of one consumer. On the loop; `pending` is read by the polling thread, too."""

    def __init__(self, metadata: Metadata, subscription: Subscription, ask_after: float) -> None:
        self.metadata = metadata
        self.subscription = subscription
        self.pending = False
        """Some topic is refused: the next poll has to raise, or to see that it is asked again."""
        self._ask_after = ask_after
        self._raised_version = -1

    def subscribed(self) -> None:
        """The subscription has changed. What is known of its topics may be old: only the next answer is told."""
        self.metadata_updated()
        if self.pending:
            self._raised_version = self.metadata.version
            self.metadata.request_update()

    def metadata_updated(self) -> None:
        """There is a new snapshot."""
        self.pending = self._current_error() is not None

    def check(self) -> None:
        """A poll's duty. Raises what has not been told yet."""
        if not self.pending:
            return
        error = self._current_error()
        self.pending = error is not None
        if error is not None and self._raised_version != self.metadata.version:
            self._raised_version = self.metadata.version
            raise error
        if error is not None and time.monotonic() - self.metadata.updated_at >= self._ask_after:
            self.metadata.request_update()

    def _current_error(self) -> KafkaError | None:
        if self.subscription.pattern is not None:
            return None  # a pattern finds what may be described
        topics = self.subscription.topics or {tp.topic for tp in self.subscription.partitions}
        return topic_error(self.metadata.cluster, topics)
