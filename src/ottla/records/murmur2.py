"""The hash that chooses the partition of a key: Java's `Utils.murmur2`, so that all clients agree. With murmur2.pxd."""

from __future__ import annotations


def murmur2(data: bytes) -> int:
    """32-bit hash, unsigned."""
    size = len(data)
    p = data
    # Numbers above 2^31 are objects where this is compiled, unless they are in a typed variable.
    mask = 0xFFFFFFFF
    seed = 0x9747B28C
    m = 0x5BD1E995
    h = seed ^ size
    pos = 0
    while size - pos >= 4:
        k = p[pos + 3]
        k = (k << 8) | p[pos + 2]
        k = (k << 8) | p[pos + 1]
        k = (k << 8) | p[pos]
        k = (k * m) & mask
        k = ((k ^ (k >> 24)) * m) & mask
        h = ((h * m) & mask) ^ k
        pos += 4
    if size - pos == 3:
        h ^= p[pos + 2] << 16
    if size - pos >= 2:
        h ^= p[pos + 1] << 8
    if size - pos >= 1:
        h = ((h ^ p[pos]) * m) & mask
    h = ((h ^ (h >> 13)) * m) & mask
    return h ^ (h >> 15)
