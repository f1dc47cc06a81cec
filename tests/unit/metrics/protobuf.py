"""A minimal decoder of protobuf messages to {field: [values]}, and of OpenTelemetry's MetricsData."""

from __future__ import annotations

import struct
from collections import defaultdict
from typing import Any


def decoded(data: bytes) -> dict[int, list[Any]]:
    result: dict[int, list[Any]] = defaultdict(list)
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
            result[tag >> 3].append(value)
        elif tag & 7 == 1:
            result[tag >> 3].append(data[at : at + 8])
            at += 8
        else:
            assert tag & 7 == 2
            size, at = _varint(data, at)
            result[tag >> 3].append(data[at : at + size])
            at += size
    return result


def double(raw: bytes) -> float:
    return float(struct.unpack("<d", raw)[0])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def metrics(data: bytes) -> dict[str, tuple[str, float, dict[str, str]]]:
    """Return OpenTelemetry's MetricsData as {name: (kind, value, attributes)}, with one data point per metric."""
    result = {}
    for resource in decoded(data)[1]:
        for scope in decoded(resource)[2]:
            for raw in decoded(scope)[2]:
                metric = decoded(raw)
                kind = "gauge" if metric[5] else f"sum {decoded(metric[7][0])[2][0]}"
                point = decoded(decoded((metric[5] or metric[7])[0])[1][0])
                attributes = dict(attribute(a) for a in point[7])
                result[metric[1][0].decode()] = (kind, double(point[4][0]), attributes)
    return result


def start_times(data: bytes) -> dict[str, int]:
    """Return the start times of the sums, in milliseconds since 1970, by metric."""
    result = {}
    for resource in decoded(data)[1]:
        for scope in decoded(resource)[2]:
            for metric in map(decoded, decoded(scope)[2]):
                for total in metric[7]:
                    (nanoseconds,) = decoded(decoded(total)[1][0])[2]
                    result[metric[1][0].decode()] = int.from_bytes(nanoseconds, "little") // 1_000_000
    return result


def labels(data: bytes) -> dict[str, str]:
    """Return the attributes of the resource."""
    (resource,) = decoded(decoded(data)[1][0])[1]
    return dict(attribute(raw) for raw in decoded(resource)[1])


def attribute(raw: bytes) -> tuple[str, str]:
    pair = decoded(raw)
    return pair[1][0].decode(), decoded(pair[2][0])[1][0].decode()
