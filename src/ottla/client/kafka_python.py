"""Names that differ in kafka-python, for programs that only change the import."""

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
    """Encodes str; bytes are sent as they are."""

    types = (str, bytes, bytearray, memoryview)
    expected = "a str or bytes"

    def _write(self, topic: str, value: Any) -> bytes:
        return super()._write(topic, value) if isinstance(value, str) else bytes(value)
