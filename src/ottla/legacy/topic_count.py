"""What a member of a 0.8 group subscribes to, as it stands in `/consumers/G/ids/ID`: topics, and threads for each.

    {"version":1,"subscription":{"page_visits":2},"pattern":"static","timestamp":"1403061899859"}

A topic filter stands there as its regular expression, with `white_list` or `black_list` as the pattern.
"""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from ottla.cluster.store import znodes
from ottla.errors import KafkaError
from ottla.legacy.topic_filter import FILTERS, TopicFilter

STATIC: Final = "static"
VERSION: Final = 1
ID_DIGITS: Final = 8


def consumer_id_string(group: str, configured: str | None, now_ms: int) -> str:
    """A member's name: the group's and the configured one, or host, time and the first digits of a UUID's high half."""
    if configured is None:
        high_half = f"{uuid.uuid4().int >> 64:x}"
        configured = f"{socket.gethostname()}-{now_ms}-{high_half[:ID_DIGITS]}"
    return f"{group}_{configured}"


class ConsumerThreadId(NamedTuple):
    """A thread of a member. Its text is what owners are called, and what threads are sorted by: 10 comes before 2."""

    consumer: str
    thread_id: int

    def __str__(self) -> str:
        return f"{self.consumer}-{self.thread_id}"


class TopicCount(NamedTuple):
    """Threads by topic, or by the one topic filter."""

    subscription: Mapping[str, int]
    pattern: str = STATIC

    @classmethod
    def of_filter(cls, chosen: TopicFilter, threads: int) -> TopicCount:
        """For a topic filter."""
        return cls({chosen.regex: threads}, chosen.PATTERN)

    @classmethod
    def of_json(cls, member: str, raw: bytes) -> TopicCount:
        """What a member has registered. KafkaError where it is none."""
        try:
            value = json.loads(raw)
            subscription = {str(name): int(count) for name, count in value["subscription"].items()}
            pattern = str(value["pattern"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise KafkaError(f"error in constructing topic count for {member}: {raw!r}: {error!r}") from None
        if not subscription:
            raise KafkaError(f"error in constructing topic count for {member}: it subscribes to nothing")
        return cls(subscription, pattern if pattern in FILTERS else STATIC)

    def to_json(self, now_ms: int) -> bytes:
        """What is registered."""
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
        """The topic filter; None for topics by name."""
        if self.pattern == STATIC:
            return None
        (regex,) = self.subscription
        return FILTERS[self.pattern](regex)

    def threads(
        self, consumer: str, all_topics: Callable[[], Collection[str]], exclude_internal: bool
    ) -> dict[str, list[ConsumerThreadId]]:
        """The member's threads by topic; `all_topics` is asked where a filter chooses among them."""
        chosen = self.filter
        counts: Mapping[str, int] = self.subscription
        if chosen is not None:
            (count,) = self.subscription.values()
            counts = {name: count for name in all_topics() if chosen.is_topic_allowed(name, exclude_internal)}
        return {topic: [ConsumerThreadId(consumer, n) for n in range(count)] for topic, count in counts.items()}
