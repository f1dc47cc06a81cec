"""Frames: a connection carries a size of 4 bytes, then that many bytes, and so on.

`FrameReader` splits received bytes into frames; `request_frame` and `response_frame` create the chunks to send.
Nothing here does I/O.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.errors import MalformedMessageError
from ottla.protocol.header import encode_request_header, encode_response_header
from ottla.protocol.message import Request, Response, encode_chunks
from ottla.protocol.wire import Chunk, size_of

BLOCK_BYTES: Final = 64 * 1024
"""The default size in bytes of the buffer that small frames share."""

TRUST_BYTES: Final = 1024 * 1024
"""The default maximum size in bytes of a frame for which all memory is allocated at once. For larger frames, memory
grows with the bytes that arrive.
"""


class FrameReader:
    """Splits a stream of bytes into frames. Only the start of an incomplete frame is copied, if it has to be moved.

    `space()` is memory to receive into; `received(n)` records its use and returns the complete frames, as views of that
    memory. A frame stays valid while it is referenced; unreferenced memory may be reused.
    """

    def __init__(self, max_bytes: int, block_bytes: int = BLOCK_BYTES, trust_bytes: int = TRUST_BYTES) -> None:
        self.max_bytes = max_bytes
        self.trust_bytes = trust_bytes
        self._block_bytes = block_bytes
        self._block = bytearray(block_bytes)
        self._view = memoryview(self._block)
        self._spare = bytearray()
        """An earlier block for reuse, or empty. Two are needed if bytes arrive while frames of one are in use."""
        self._start = 0
        self._end = 0

    def space(self) -> memoryview:
        """Return the memory into which the next bytes are to be received; never empty."""
        if self._start == self._end:
            if len(self._block) > self.trust_bytes:
                self._move(self._block_bytes)  # one large frame must not hold its memory for ever
            elif self._start and self._free():
                self._start = self._end = 0
        elif self._end - self._start >= 4:
            whole = 4 + self._size()
            # A frame above `trust_bytes` fills its memory before it gets twice as much.
            if self._start + whole > len(self._block) and whole <= self.trust_bytes:
                self._move(whole)
        if self._end == len(self._block):
            self._move(self._next_size())
        return self._view[self._end :]

    def received(self, count: int) -> list[memoryview]:
        """Record that `count` bytes were received into `space()`, and return the frames that are now complete.

        Raises MalformedMessageError if a frame's size is negative or too large.
        """
        self._end += count
        frames = []
        while self._end - self._start >= 4:
            stop = self._start + 4 + self._size()
            if stop > self._end:
                break
            frames.append(self._view[self._start + 4 : stop])
            self._start = stop
        return frames

    @property
    def waiting(self) -> int:
        """The number of bytes of an unfinished frame that have been received, including those of the size before it."""
        return self._end - self._start

    @property
    def missing(self) -> int:
        """The number of bytes that an unfinished frame still needs; if the size before it is incomplete, those that the
        size needs.
        """
        return 4 + self._size() - self.waiting if self.waiting >= 4 else 4 - self.waiting

    def _size(self) -> int:
        size = int.from_bytes(self._view[self._start : self._start + 4], "big", signed=True)
        if not 0 <= size <= self.max_bytes:
            raise MalformedMessageError(f"a frame of {size} bytes; at most {self.max_bytes} are accepted")
        return size

    def _next_size(self) -> int:
        """Return the size of the block that follows a full one."""
        waiting = self._end - self._start
        if waiting < 4:
            # The next frame is likely to be as large as the last ones.
            return len(self._block) if len(self._block) <= self.trust_bytes else self._block_bytes
        return min(4 + self._size(), max(self.trust_bytes, 2 * waiting))

    def _move(self, size: int) -> None:
        """Move the incomplete frame to the start of a block of at least `size` bytes: of the current block, if it has
        the required size and no frame of it is in use, otherwise of another one.
        """
        waiting = self._end - self._start
        size = max(self._block_bytes, size)
        if size == len(self._block) and self._free():
            self._view[:waiting] = self._view[self._start : self._end]
        else:
            before, old, self._block = self._view, self._block, self._new_block(size)
            self._spare = old if len(old) <= self.trust_bytes else bytearray()
            self._view = memoryview(self._block)
            self._view[:waiting] = before[self._start : self._end]
        self._start, self._end = 0, waiting

    def _new_block(self, size: int) -> bytearray:
        """Return the spare block if no frame of it is in use and its size fits, otherwise a new one."""
        spare = self._spare
        return spare if size <= len(spare) <= 2 * size and _is_free(spare) else bytearray(size)

    def _free(self) -> bool:
        """Return whether no frame of the current block is in use."""
        self._view.release()
        try:
            return _is_free(self._block)
        finally:
            self._view = memoryview(self._block)


def _is_free(block: bytearray) -> bool:
    """Return whether no view refers to the block: Python refuses to resize memory with views."""
    try:
        block.append(block.pop())
    except BufferError:
        return False
    else:
        return True


def request_frame(request: Request[Any], version: int, correlation_id: int, client_id: str | None) -> list[Chunk]:
    """Return a request with its size and header, as chunks to send."""
    out = bytearray(4)
    encode_request_header(out, request.API_KEY, version, correlation_id, client_id)
    return seal(out, encode_chunks(request, version, out))


def response_frame(response: Response, version: int, correlation_id: int) -> list[Chunk]:
    """Return a response with its size and header, as chunks to send."""
    out = bytearray(4)
    encode_response_header(out, response.API_KEY, version, correlation_id)
    return seal(out, encode_chunks(response, version, out))


def seal(out: bytearray, chunks: list[Chunk]) -> list[Chunk]:
    """Write the size of a frame into its first 4 bytes, the beginning of `out`, and return its chunks."""
    size = sum(map(size_of, chunks)) - 4
    out[0:4] = size.to_bytes(4, "big")
    return chunks
