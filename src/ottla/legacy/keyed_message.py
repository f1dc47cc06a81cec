"""`KeyedMessage`, which the 0.8 producer sends, and `Message`, which contains its key and message as bytes."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar, cast, overload

K = TypeVar("K")
V = TypeVar("V")


class Message(NamedTuple):
    """The key and the value of a message as bytes."""

    key: bytes | None
    value: bytes | None


class KeyedMessage(Generic[K, V]):
    """A message for a topic. It is immutable.

        KeyedMessage(topic, message)
        KeyedMessage(topic, key, message)
        KeyedMessage(topic, key, part_key, message)

    The partitioner uses `part_key`, or `key` if that is None. If both are None, the producer chooses the partition
    without the partitioner. `part_key` is not sent to the broker.
    """

    __slots__ = ("key", "message", "part_key", "topic")

    @overload
    def __init__(self, topic: str, message: V, /) -> None: ...
    @overload
    def __init__(self, topic: str, key: K | None, message: V, /) -> None: ...
    @overload
    def __init__(self, topic: str, key: K | None, part_key: Any, message: V, /) -> None: ...
    @overload
    def __init__(self, topic: str, *, message: V, key: K | None = None, part_key: Any = None) -> None: ...
    def __init__(self, topic: str, *rest: Any, key: Any = None, part_key: Any = None, message: Any = None) -> None:
        if not isinstance(topic, str) or not topic:
            raise ValueError("a topic is required")
        if len(rest) > 3:
            raise TypeError(f"KeyedMessage takes topic, key, part_key and message, not {len(rest) + 1} values")
        if len(rest) == 3:
            key, part_key, message = rest
        elif len(rest) == 2:
            key, message = rest
            part_key = key
        elif rest:
            (message,) = rest
        for name, value in (("topic", topic), ("key", key), ("part_key", part_key), ("message", message)):
            object.__setattr__(self, name, value)

    topic: str
    key: K | None
    part_key: Any
    message: V

    @property
    def has_key(self) -> bool:
        """Whether the message has a key."""
        return self.key is not None

    @property
    def partition_key(self) -> Any:
        """The key for the partitioner; None if the producer chooses the partition."""
        return self.key if self.part_key is None else self.part_key

    def with_message(self, message: Message) -> KeyedMessage[K, Message]:
        """Return a copy whose message is `message`, which contains the encoded key and value."""
        return cast("KeyedMessage[K, Message]", KeyedMessage(self.topic, self.key, self.part_key, message))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name}: a KeyedMessage is frozen")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name}: a KeyedMessage is frozen")

    def _values(self) -> tuple[str, Any, Any, Any]:
        return (self.topic, self.key, self.part_key, self.message)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyedMessage) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return f"KeyedMessage({self.topic!r}, {self.key!r}, {self.part_key!r}, {self.message!r})"
