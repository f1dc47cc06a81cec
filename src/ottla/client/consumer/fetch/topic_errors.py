"""Errors of subscribed and assigned topics, which poll() raises, and warnings about topics that do not exist. Part of
Kafka's `Metadata`.

The next poll after a metadata response with an error raises it. While there is an error, polls request the metadata
from time to time, so that a consumer continues once it is authorized.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable
from typing import Final

from ottla import errors
from ottla.addresses import host_and_port
from ottla.client.consumer.subscription import Subscription
from ottla.client.core.metadata import Cluster, Metadata, error_text
from ottla.config.client import ClientConfig
from ottla.model import ACLOperation

log = logging.getLogger("ottla.client")

FATAL_TOPIC_ERRORS: Final = (errors.TopicAuthorizationFailedError, errors.InvalidTopicError)
"""Errors of topics that poll() raises. Other errors may disappear: the consumer waits for a topic that does not exist
yet.
"""
AUTO_CREATION_SECONDS: Final = 1.0
"""Time in seconds that a broker has to create a missing topic automatically before the consumer warns about it."""


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

    def __init__(self, config: ClientConfig, metadata: Metadata, subscription: Subscription) -> None:
        self.metadata = metadata
        self.subscription = subscription
        self.pending = False
        """Whether a subscribed or assigned topic has one of FATAL_TOPIC_ERRORS, so that polls have to call `check`."""
        self._config = config
        self._refresh_after = config.retry_backoff_max_ms / 1000
        self._raised_version = -1
        self._warn_at: dict[str, float] = {}
        """The monotonic time in seconds of the warning about each missing topic; infinite after the warning."""

    def subscribed(self) -> None:
        """Handle a new subscription. The metadata at hand may be outdated: only errors in the next response are
        raised.
        """
        self.pending = self._current_error() is not None
        if self.pending:
            self._raised_version = self.metadata.version
            self.metadata.request_update()

    def metadata_updated(self) -> None:
        """Set `pending` according to the current metadata, and warn about topics that do not exist."""
        self.pending = self._current_error() is not None
        self._warn_about_missing()

    def _warn_about_missing(self) -> None:
        """Warn about each missing topic once, and again if it was created and deleted since. If the broker may create
        it automatically, it has AUTO_CREATION_SECONDS for that.
        """
        now = time.monotonic()
        first_at = now + AUTO_CREATION_SECONDS if self._config.allow_auto_create_topics else now
        infos = self.metadata.cluster.topics
        missing = (t for t in self._topics() if t in infos and infos[t].error is errors.UnknownTopicOrPartitionError)
        self._warn_at = {topic: self._warn_at.get(topic, first_at) for topic in missing}
        for topic, warn_at in self._warn_at.items():
            if now >= warn_at:
                self._warn_at[topic] = math.inf
                log.warning(
                    "Topic %r does not exist; waiting until it is created. To create it: %s",
                    topic,
                    self._creating_command(topic),
                )

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
        return topic_error(self.metadata.cluster, self._topics())

    def _topics(self) -> Iterable[str]:
        if self.subscription.pattern is not None:
            return ()  # a pattern matches only topics that exist and may be described
        return self.subscription.topics or {tp.topic for tp in self.subscription.partitions}

    def _creating_command(self, topic: str) -> str:
        import shlex  # only this warning needs it

        connection = ["--bootstrap-server", host_and_port(*self._config.bootstrap_servers[0])]
        if self._config.security_protocol != "PLAINTEXT":
            connection += ["--command-config", "FILE"]
        return shlex.join(["ottla", "topics", *connection, "--create", "--topic", topic])
