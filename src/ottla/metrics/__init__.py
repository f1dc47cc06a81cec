"""Metrics: sensors, statistics and reporters, as in Kafka's `org.apache.kafka.common.metrics`, and the
formats of Prometheus and OpenTelemetry.
"""
