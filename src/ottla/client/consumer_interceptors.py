"""What users put between consumer and program. Kafka's `ConsumerInterceptor` and `ConsumerInterceptors`."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.client.records import ConsumerRecord
from ottla.model import OffsetAndMetadata, TopicPartition

log = logging.getLogger("ottla.client")

Records = dict[TopicPartition, list[ConsumerRecord]]


class ConsumerInterceptor:
    """Sees records before the program does, and commits after they succeeded; any method may be left out."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """The consumer's options by Kafka's names, as they were set; called once, before everything else."""

    def on_consume(self, records: Records) -> Records:
        """What poll() is about to return; what is returned here goes on to the next interceptor, then to poll().

        Called by the thread that polls.
        """
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Offsets were committed."""

    def close(self) -> None:
        """The consumer has ended."""


class ConsumerInterceptors:
    """The chain of one consumer. What one of them raises is logged and goes no further."""

    def __init__(self, interceptors: Sequence[Any], configs: Mapping[str, Any]) -> None:
        self.chain = [made() if isinstance(made, type) else made for made in interceptors]
        for interceptor in self.chain:
            configure = getattr(interceptor, "configure", None)
            if configure is not None:
                configure(configs)

    def __bool__(self) -> bool:
        return bool(self.chain)

    def on_consume(self, records: Records) -> Records:
        """The records as the chain leaves them; one that fails leaves them as they were."""
        for interceptor in self.chain:
            changed = self._call(interceptor, "on_consume", records)
            records = records if changed is None else changed
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Tell all of a commit."""
        for interceptor in self.chain:
            self._call(interceptor, "on_commit", offsets)

    def close(self) -> None:
        """Tell all of the end."""
        for interceptor in self.chain:
            self._call(interceptor, "close")

    def _call(self, interceptor: Any, method: str, *args: Any) -> Any:
        call = getattr(interceptor, method, None)
        if call is None:
            return None
        try:
            return call(*args)
        except Exception:  # a user's code must never break a consumer
            log.exception("interceptor %s.%s has failed", type(interceptor).__name__, method)
            return None
