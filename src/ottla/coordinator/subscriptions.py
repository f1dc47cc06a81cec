"""What the members of a classic group told each other about the topics they read, as far as the broker can tell."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.errors import MalformedMessageError
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.protocol.versioned import decode_versioned

CONSUMER = "consumer"
"""The protocol type whose metadata the broker can read."""


def topics_of(metadata: Iterable[bytes | None]) -> frozenset[str] | None:
    """The topics that members subscribed to; None where one of them cannot be read."""
    topics: set[str] = set()
    for raw in metadata:
        try:
            topics.update(decode_versioned(ConsumerProtocolSubscription, raw or b"").topics)
        except MalformedMessageError:
            return None  # another client's own format: only its leader understands it
    return frozenset(topics)
