"""The share consumer's options: the consumer's except `UNSUPPORTED`, and the modes in which records are acquired and
acknowledged (KIP-932).
"""

from __future__ import annotations

from typing import Final

from ottla.config.consumer import ConsumerConfig
from ottla.config.options import Option, one_of
from ottla.errors import ConfigurationError

IMPLICIT: Final = "implicit"
EXPLICIT: Final = "explicit"
BATCH_OPTIMIZED: Final = "batch_optimized"
RECORD_LIMIT: Final = "record_limit"

UNSUPPORTED: Final = (
    "auto.offset.reset",
    "enable.auto.commit",
    "group.instance.id",
    "isolation.level",
    "partition.assignment.strategy",
    "interceptor.classes",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "group.protocol",
    "group.remote.assignor",
)
"""Options of a consumer that a share consumer rejects, as in Java."""


class ShareConsumerConfig(ConsumerConfig, subject="share consumer"):
    """Options of a share consumer."""

    share_acknowledgement_mode: Final = Option(
        IMPLICIT,
        one_of(IMPLICIT, EXPLICIT),
        "implicit: the next poll() or commit accepts the records of the last poll(); explicit: the application must "
        "acknowledge each record before the next poll().",
    )
    share_acquire_mode: Final = Option(
        BATCH_OPTIMIZED,
        one_of(BATCH_OPTIMIZED, RECORD_LIMIT),
        "batch_optimized: poll() may return more records than max.poll.records, because whole batches are acquired; "
        "record_limit: at most max.poll.records are acquired, from one broker at a time.",
    )

    def check(self) -> None:
        """Raise ConfigurationError for options that do not apply to a share group, or that contradict each other."""
        for key in UNSUPPORTED:
            if self.originals.get(key) is not None:
                raise ConfigurationError(f"{key} cannot be set when using a share group")
        super().check()
