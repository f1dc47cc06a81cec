"""Keyword options of share consumers. Written by `python -m scripts.option_types`."""

from __future__ import annotations

from ottla.client.options.consumer import ConsumerOptions


class ShareConsumerOptions(ConsumerOptions, total=False):
    """Keyword options of share consumers."""

    share_acknowledgement_mode: str
    """implicit: the next poll() or commit accepts the records of the last poll(); explicit: the application
    acknowledges each record.
    """
    share_acquire_mode: str
    """batch_optimized: whole batches, which may exceed max.poll.records; record_limit: at most max.poll.records."""
