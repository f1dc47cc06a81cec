"""The result of handling a request or timeout in a coordinator: records to append, then responses.

Kafka's `CoordinatorResult`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ottla.protocol.message import Response


class ResponseFuture(Protocol):
    """Receives the response to a request. In the runtime it is an asyncio future; tests may use any object."""


class CoordinatorRecord(NamedTuple):
    """A record of an internal topic. If `value` is None, it is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(slots=True)
class CoordinatorResult:
    """The records and responses that are collected while a request or timeout is handled."""

    records: list[CoordinatorRecord] = field(default_factory=list)
    responses: list[tuple[ResponseFuture, Response]] = field(default_factory=list)
    replacement: Any = None
    """The classic Group that replaces a downgraded consumer group when the records are appended; else None."""

    replaced: Any = None
    """The Group that a new one has already replaced, to be restored if the records cannot be appended; else None."""

    def extend(self, other: CoordinatorResult) -> None:
        """Add the records and responses of another result."""
        self.records += other.records
        self.responses += other.responses

    def respond(self, future: ResponseFuture, response: Response) -> None:
        """Add a response, which is sent once the records are committed."""
        self.responses.append((future, response))
