"""Stand-in for the parts of `cython` that the compiled modules use, for running them as plain Python without Cython."""

from __future__ import annotations

from typing import Final

compiled: Final[bool] = False
