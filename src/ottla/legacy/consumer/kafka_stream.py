"""`KafkaStream` and its `ConsumerIterator`: the messages for one thread of a 0.8 consumer.

    for message in stream:
        print(message.topic, message.partition, message.offset, message.key, message.message)

The loop ends after the connector's `shutdown()`. If no message arrives within consumer.timeout.ms, it raises
ConsumerTimeoutError; to continue, iterate again.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from ottla.legacy.consumer.partition_topic_info import ChunkQueue, FetchedDataChunk
from ottla.legacy.decoder import Decoder
from ottla.legacy.errors import ConsumerTimeoutError, MessageSizeTooLargeError
from ottla.legacy.keyed_message import Message


class MessageAndMetadata(NamedTuple):
    """A message with its topic, partition and offset. Key and message are decoded each time they are accessed."""

    topic: str
    partition: int
    raw_message: Message
    offset: int
    key_decoder: Decoder
    value_decoder: Decoder

    @property
    def key(self) -> Any:
        """The decoded key; None if there is none."""
        raw = self.raw_message.key
        return None if raw is None else self.key_decoder.from_bytes(raw)

    @property
    def message(self) -> Any:
        """The decoded message; None for a tombstone."""
        raw = self.raw_message.value
        return None if raw is None else self.value_decoder.from_bytes(raw)


class ConsumerIterator:
    """An iterator over the messages of a stream. Not thread-safe."""

    def __init__(self, queue: ChunkQueue, timeout_ms: int, key_decoder: Decoder, value_decoder: Decoder) -> None:
        self._queue = queue
        self._timeout = None if timeout_ms < 0 else timeout_ms / 1000
        self._decoders = (key_decoder, value_decoder)
        self._chunk: FetchedDataChunk | None = None
        self._position = 0
        self._ahead: MessageAndMetadata | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> MessageAndMetadata:
        if not self.has_next():
            raise StopIteration
        message, self._ahead = self._ahead, None
        assert message is not None
        return message

    next = __next__

    def has_next(self) -> bool:
        """Wait for the next message and return True, or return False if the connector is shut down before there is one.
        Raises ConsumerTimeoutError after consumer.timeout.ms, and MessageSizeTooLargeError for a message larger than
        fetch.message.max.bytes.

        As with `next()`, the message counts as consumed, so that its offset may be committed.
        """
        while self._ahead is None:
            if self._chunk is None and not self._next_chunk():
                return False
            self._ahead = self._advance()
        return True

    def _next_chunk(self) -> bool:
        chunk = self._queue.poll(self._timeout)
        if chunk is None:
            if self._queue.closed:
                return False
            raise ConsumerTimeoutError(f"no message arrived for {(self._timeout or 0) * 1000:.0f} ms")
        if not chunk.messages:
            raise MessageSizeTooLargeError(
                f"a message of {chunk.info.partition} at offset {chunk.fetch_offset} is larger than"
                " fetch.message.max.bytes: increase it, or decrease message.max.bytes of the broker"
            )
        self._chunk, self._position = chunk, 0
        return True

    def _advance(self) -> MessageAndMetadata | None:
        """Return the next message of the current chunk, or None if it has no more."""
        assert self._chunk is not None
        info, _, messages = self._chunk
        while self._position < len(messages):
            message = messages[self._position]
            self._position += 1
            if info.consume(message):
                topic, partition = info.partition
                return MessageAndMetadata(topic, partition, message.message, message.offset, *self._decoders)
        self._chunk = None
        return None


class KafkaStream:
    """An iterable with the messages for one thread. All loops share one iterator."""

    def __init__(self, queue: ChunkQueue, timeout_ms: int, key_decoder: Decoder, value_decoder: Decoder) -> None:
        self._iterator = ConsumerIterator(queue, timeout_ms, key_decoder, value_decoder)

    def iterator(self) -> ConsumerIterator:
        """Return the stream's iterator, always the same one."""
        return self._iterator

    __iter__ = iterator
