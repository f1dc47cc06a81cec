"""What is measured while it runs: sensors, windows, reporters. Kafka's `org.apache.kafka.common.metrics`."""
