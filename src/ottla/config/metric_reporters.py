"""Metrics reporters that clients and brokers know by short names."""

from __future__ import annotations

from typing import Final

REPORTERS: Final = {
    "prometheus": "ottla.metrics.prometheus.PrometheusReporter",
    "logging": "ottla.metrics.log_reporter.LoggingReporter",
}
