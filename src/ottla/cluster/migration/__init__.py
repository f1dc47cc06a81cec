"""Import of data directories of Apache Kafka."""
