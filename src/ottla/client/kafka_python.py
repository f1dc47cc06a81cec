"""Names of kafka-python for Ottla's classes, and its DefaultSerializer, for programs that were written for it."""

from __future__ import annotations

from typing import Any

from ottla.client.admin.cluster import UpgradeType
from ottla.client.admin.configs import ConfigSource
from ottla.client.admin.transactions import ProducerState
from ottla.client.consumer.group.membership import ConsumerRebalanceListener
from ottla.serializers import StringSerde

AsyncConsumerRebalanceListener = ConsumerRebalanceListener
ConfigSourceType = ConfigSource
PartitionProducerState = ProducerState
UpdateFeatureType = UpgradeType


class DefaultSerializer(StringSerde):
    """Encodes a str, as UTF-8 unless configured otherwise; bytes are not changed."""

    types: tuple[type, ...] = (str, bytes, bytearray, memoryview)
    expected = "a str or bytes"

    def _write(self, topic: str, value: Any) -> bytes:
        return super()._write(topic, value) if isinstance(value, str) else bytes(value)
