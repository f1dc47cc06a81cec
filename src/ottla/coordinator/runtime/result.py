"""The result of a coordinator's decision: records to append, then responses. Kafka's `CoordinatorResult`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ottla.protocol.message import Response


class ResponseFuture(Protocol):
    """Where an answer goes: a future of the runtime's, or anything that a test can hold."""


class Record(NamedTuple):
    """A record for `__consumer_offsets`; a value of None removes what the key stands for."""

    key: bytes
    value: bytes | None


@dataclass(slots=True)
class CoordinatorResult:
    """Collected while a request is decided."""

    records: list[Record] = field(default_factory=list)
    replies: list[tuple[ResponseFuture, Response]] = field(default_factory=list)
    converted: Any = None
    """The Group that replaces one that changes its protocol, once the records are appended."""

    def extend(self, more: CoordinatorResult) -> None:
        """Another decision comes after this one."""
        self.records += more.records
        self.replies += more.replies

    def reply(self, token: ResponseFuture, response: Response) -> None:
        """Give this answer once the records are safe."""
        self.replies.append((token, response))
