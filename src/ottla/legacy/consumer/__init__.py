"""Kafka 0.8's `SimpleConsumer`, and the consumers with their group in ZooKeeper."""
