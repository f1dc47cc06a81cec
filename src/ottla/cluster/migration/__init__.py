"""Import of log directories of Apache Kafka."""
