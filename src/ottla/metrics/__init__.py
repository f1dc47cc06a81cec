"""Metrics of clients: sensors, statistics over time windows, and reporters, as in Kafka's
`org.apache.kafka.common.metrics`.
"""
