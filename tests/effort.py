"""How long random searches go on: briefly for each change, at length at night (`scripts/test.sh --thorough`)."""

from __future__ import annotations

import os
from typing import Final

THOROUGH: Final = os.environ.get("OTTLA_THOROUGH") == "1"


def repeats(brief: int, thorough: int) -> int:
    """Return how often to repeat what is random, such as a kill. The brief run tests every behaviour."""
    return thorough if THOROUGH else brief
