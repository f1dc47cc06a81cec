"""Keyword options of share consumers. Written by `python -m scripts.option_types`."""

from __future__ import annotations

from ottla.client.options.consumer import ConsumerOptions


class ShareConsumerOptions(ConsumerOptions, total=False):
    """Keyword options of share consumers."""

    share_acknowledgement_mode: str
    """implicit: the next poll() or commit accepts the records of the last poll(); explicit: the application must
    acknowledge each record before the next poll().
    """
    share_acquire_mode: str
    """batch_optimized: poll() may return more records than max.poll.records, because whole batches are acquired;
    record_limit: at most max.poll.records are acquired, from one broker at a time.
    """
