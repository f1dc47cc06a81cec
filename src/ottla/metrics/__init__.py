"""Client metrics: sensors, sampled statistics and reporters, as in Kafka's `org.apache.kafka.common.metrics`."""
