"""The result of a coordinator's decision: records to append, then responses. Kafka's `CoordinatorResult`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ottla.protocol.message import Response


class ResponseFuture(Protocol):
    """Receives the response to a request: a future of the runtime, or any object in tests."""


class CoordinatorRecord(NamedTuple):
    """A record of an internal topic; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(slots=True)
class CoordinatorResult:
    """The records and responses of a decision, collected while a request is handled."""

    records: list[CoordinatorRecord] = field(default_factory=list)
    responses: list[tuple[ResponseFuture, Response]] = field(default_factory=list)
    replacement: Any = None
    """The Group that replaces one whose protocol changes, once the records are appended."""

    def extend(self, other: CoordinatorResult) -> None:
        """Append the records and responses of a later decision."""
        self.records += other.records
        self.responses += other.responses

    def respond(self, future: ResponseFuture, response: Response) -> None:
        """Send a response once the records are committed."""
        self.responses.append((future, response))
