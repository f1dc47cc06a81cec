"""Damages bytes at random."""

from __future__ import annotations

import random

LENGTHS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\x0f")
"""What lies about a length looks like."""


def damaged(data: bytes, r: random.Random) -> bytes:
    """Return the bytes with a few of them changed, removed or duplicated."""
    out = bytearray(data)
    for _ in range(r.randint(1, 4)):
        if not out:
            break
        at = r.randrange(len(out))
        how = r.randrange(4)
        if how == 0:
            out[at] ^= 1 << r.randrange(8)
        elif how == 1:
            del out[at:]
        elif how == 2:
            out[at:at] = out[: r.randrange(64)]
        else:
            out[at : at + 4] = r.choice(LENGTHS)
    return bytes(out)
