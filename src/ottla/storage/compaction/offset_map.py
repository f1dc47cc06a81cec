"""A map from keys to their last offsets, for compaction, in bounded memory: a pass covers only as many keys as fit."""

from __future__ import annotations

from hashlib import blake2b

DEDUPE_BUFFER_BYTES = 128 * 1024 * 1024
"""Kafka's default of log.cleaner.dedupe.buffer.size: the default memory in bytes for the keys of one pass."""
BYTES_PER_KEY = 160
"""Memory per key in bytes, as measured: a digest, an offset and a slot in the table."""
DIGEST_BYTES = 16


class OffsetMap:
    """The last offset of each key.

    Keys of 16 bytes or more are stored as digests of 16 bytes, whose collisions are practically impossible.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_keys = max(max_bytes // BYTES_PER_KEY, 1)
        self.latest_offset = -1
        """The last offset that was put into the map; -1 for none."""
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        """Whether no further key fits."""
        return len(self._offsets) >= self.max_keys

    def put(self, key: bytes, offset: int) -> None:
        """Set a key's last offset. Offsets must increase from call to call."""
        assert offset > self.latest_offset
        self._offsets[_digest(key)] = offset
        self.latest_offset = offset

    def get(self, key: bytes) -> int:
        """Return a key's last offset; -1 if the key is not in the map."""
        return self._offsets.get(_digest(key), -1)


def _digest(key: bytes) -> bytes:
    # Keys shorter than a digest are stored as they are. A key of 16 bytes is not, because it could equal another key's
    # digest.
    return key if len(key) < DIGEST_BYTES else blake2b(key, digest_size=DIGEST_BYTES).digest()
