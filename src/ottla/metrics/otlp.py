"""Encoding of metrics as OpenTelemetry's MetricsData, which clients push to brokers (KIP-714).

It does not need the protobuf package: a protobuf message is a sequence of numbered fields, which the functions below
encode.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from typing import Final

from ottla.metrics.metric import KafkaMetric, MetricName
from ottla.metrics.metrics import Metrics

PREFIX: Final = "org.apache.kafka"
_DELTA: Final = 1
_CUMULATIVE: Final = 2
_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2


class Exporter:
    """Encodes the metrics of a client. It stores the exported totals, so that it can encode deltas."""

    def __init__(self, metrics: Metrics, resource: Mapping[str, str]) -> None:
        self._metrics = metrics
        self._resource = resource
        self._exported: dict[MetricName, tuple[float, int]] = {}
        """The value and the time of each total's last export as a delta."""
        self._started = metrics.clock.now_ms()

    def encoded(self, prefixes: Iterable[str], delta: bool) -> bytes:
        """Return the encoded metrics whose telemetry names start with one of `prefixes`; no bytes if there are none.
        Values that are not finite numbers are omitted.

        If `delta` is true, a total is encoded as its increase since its last export with `delta`, otherwise as a whole.
        """
        now = self._metrics.clock.now_ms()
        selected = tuple(prefixes)
        body = b"".join(
            _field(2, self._encoded_one(name, metric, now, delta))
            for name, metric in self._metrics.metrics.items()
            if telemetry_name(name).startswith(selected) and _is_number(metric.value())
        )
        resource = b"".join(_attribute(1, key, value) for key, value in self._resource.items())
        return _field(1, _field(1, resource) + _field(2, body)) if body else b""

    def _encoded_one(self, name: MetricName, metric: KafkaMetric, now: int, delta: bool) -> bytes:
        value, since = metric.value(), self._started
        if metric.is_total and delta:
            before, since = self._exported.get(name, (0.0, since))
            self._exported[name] = value, now
            value -= before
        point = _fixed64(2, since * 1_000_000) if metric.is_total else b""
        point += _fixed64(3, now * 1_000_000) + _double(4, float(value))
        own = {k: v for k, v in name.tags.items() if k not in self._metrics.tags}
        point += b"".join(_attribute(7, key.replace("-", "_"), text) for key, text in own.items())
        points = _field(1, point)
        head = _text(1, telemetry_name(name))
        if not metric.is_total:
            return head + _field(5, points)
        return head + _field(7, points + _number(2, _DELTA if delta else _CUMULATIVE) + _number(3, 1))


def telemetry_name(name: MetricName) -> str:
    """Return the name of a metric in telemetry, such as org.apache.kafka.producer.topic.record.send.total."""
    return f"{PREFIX}.{name.group.replace('-metrics', '')}.{name.name}".replace("-", ".")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _fixed64(number: int, value: int) -> bytes:
    return _varint(number << 3 | _FIXED64) + struct.pack("<Q", value)


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | _FIXED64) + struct.pack("<d", value)


def _attribute(number: int, key: str, value: str) -> bytes:
    return _field(number, _text(1, key) + _field(2, _text(1, value)))
