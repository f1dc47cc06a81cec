"""The hash that chooses the partition of a key: Java's `Utils.murmur2`, so that all clients agree. With murmur2.pxd."""

from __future__ import annotations


def murmur2(data: bytes) -> int:
    """32-bit hash, unsigned."""
    size = len(data)
    p = data
    h = 0x9747B28C ^ size
    pos = 0
    while size - pos >= 4:
        k = p[pos + 3]
        k = (k << 8) | p[pos + 2]
        k = (k << 8) | p[pos + 1]
        k = (k << 8) | p[pos]
        k = (k * 0x5BD1E995) & 0xFFFFFFFF
        k = ((k ^ (k >> 24)) * 0x5BD1E995) & 0xFFFFFFFF
        h = ((h * 0x5BD1E995) & 0xFFFFFFFF) ^ k
        pos += 4
    if size - pos == 3:
        h ^= p[pos + 2] << 16
    if size - pos >= 2:
        h ^= p[pos + 1] << 8
    if size - pos >= 1:
        h = ((h ^ p[pos]) * 0x5BD1E995) & 0xFFFFFFFF
    h = ((h ^ (h >> 13)) * 0x5BD1E995) & 0xFFFFFFFF
    return h ^ (h >> 15)
