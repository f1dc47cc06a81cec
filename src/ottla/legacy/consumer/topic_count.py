"""The subscription of a member of a 0.8 group, as stored in `/consumers/G/ids/ID`: topics with numbers of threads.

{"version":1,"subscription":{"page_visits":2},"pattern":"static","timestamp":"1403061899859"}

A topic filter is stored as its regular expression, with the pattern `white_list` or `black_list`.
"""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from ottla.cluster.store import znodes
from ottla.errors import KafkaError
from ottla.legacy.consumer.topic_filter import FILTERS, TopicFilter

STATIC: Final = "static"
VERSION: Final = 1
ID_DIGITS: Final = 8


def consumer_id_string(group: str, configured: str | None, now_ms: int) -> str:
    """Return a member id: the group id, and the consumer.id. Without a consumer.id, the host name, the time and eight
    hex digits are used.
    """
    if configured is None:
        high_half = f"{uuid.uuid4().int >> 64:x}"
        configured = f"{socket.gethostname()}-{now_ms}-{high_half[:ID_DIGITS]}"
    return f"{group}_{configured}"


class ConsumerThreadId(NamedTuple):
    """A thread of a member. Its name (`str`) is stored in owner znodes. Threads are sorted by name, so that thread 10
    precedes thread 2.
    """

    consumer: str
    thread_id: int

    def __str__(self) -> str:
        return f"{self.consumer}-{self.thread_id}"


class TopicCount(NamedTuple):
    """The number of threads for each topic, or for a topic filter."""

    subscription: Mapping[str, int]
    pattern: str = STATIC

    @classmethod
    def of_filter(cls, chosen: TopicFilter, threads: int) -> TopicCount:
        """Return the subscription to a topic filter, with this number of threads."""
        return cls({chosen.regex: threads}, chosen.PATTERN)

    @classmethod
    def of_json(cls, member: str, raw: bytes) -> TopicCount:
        """Return the subscription of a member from the content of its znode. Raises KafkaError if it is malformed."""
        try:
            value = json.loads(raw)
            subscription = {str(name): int(count) for name, count in value["subscription"].items()}
            pattern = str(value["pattern"])
            made = cls(subscription, pattern if pattern in FILTERS else STATIC)
            _ = made.filter  # raises ValueError if it is not one valid regular expression
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise KafkaError(f"malformed subscription of group member {member}: {raw!r}: {error!r}") from None
        if not subscription:
            raise KafkaError(f"malformed subscription of group member {member}: no topics")
        return made

    def to_json(self, now_ms: int) -> bytes:
        """Return the content of the member's znode."""
        return znodes.dump(
            {
                "version": VERSION,
                "subscription": dict(self.subscription),
                "pattern": self.pattern,
                "timestamp": str(now_ms),
            }
        )

    @property
    def filter(self) -> TopicFilter | None:
        """The topic filter; None if the subscription has topic names."""
        if self.pattern == STATIC:
            return None
        (regex,) = self.subscription
        return FILTERS[self.pattern](regex)

    def threads(
        self, consumer: str, all_topics: Callable[[], Collection[str]], exclude_internal: bool
    ) -> dict[str, list[ConsumerThreadId]]:
        """Return the threads of the member by topic. `all_topics` returns the names of all topics; it is called only
        for a topic filter.
        """
        chosen = self.filter
        counts: Mapping[str, int] = self.subscription
        if chosen is not None:
            (count,) = self.subscription.values()
            counts = {name: count for name in all_topics() if chosen.is_topic_allowed(name, exclude_internal)}
        return {topic: [ConsumerThreadId(consumer, n) for n in range(count)] for topic, count in counts.items()}
