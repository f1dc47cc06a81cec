"""The assignors of the broker."""

from __future__ import annotations

from typing import Final

from ottla.coordinator.group.consumer.assignors import range as range_assignor
from ottla.coordinator.group.consumer.assignors import uniform
from ottla.coordinator.group.consumer.assignors.spec import Assignor

ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": uniform.assign, "range": range_assignor.assign}
"""The assignors by the names that clients request."""
