"""Key → last offset, for compaction, in bounded memory: a full map ends the range that one pass cleans."""

from __future__ import annotations

from hashlib import blake2b

BYTES_PER_KEY = 160
"""What one key takes in the map: a digest, an offset and a place in the table, by measurement."""
DIGEST_BYTES = 16


class OffsetMap:
    """The last offset of each key. Keys are kept as digests of 16 bytes, which no two keys share in practice."""

    def __init__(self, max_bytes: int) -> None:
        self.max_keys = max(max_bytes // BYTES_PER_KEY, 1)
        self.latest_offset = -1
        """The last offset that the map has seen; -1 for none."""
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        """No further key fits."""
        return len(self._offsets) >= self.max_keys

    def put(self, key: bytes, offset: int) -> None:
        """Note the key's next offset; offsets come in order."""
        assert offset > self.latest_offset
        self._offsets[_digest(key)] = offset
        self.latest_offset = offset

    def get(self, key: bytes) -> int:
        """The key's last offset, -1 for a key that was not seen."""
        return self._offsets.get(_digest(key), -1)


def _digest(key: bytes) -> bytes:
    # A short key stands for itself; of 16 bytes it could be taken for another's digest.
    return key if len(key) < DIGEST_BYTES else blake2b(key, digest_size=DIGEST_BYTES).digest()
