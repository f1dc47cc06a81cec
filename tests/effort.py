"""Length of randomized tests: short for each change, long at night (`scripts/test.sh --thorough`)."""

from __future__ import annotations

import os
from typing import Final

THOROUGH: Final = os.environ.get("OTTLA_THOROUGH") == "1"


def repeats(brief: int, thorough: int) -> int:
    """Return how often to repeat a random event, such as a kill. The brief run covers every behaviour."""
    return thorough if THOROUGH else brief
