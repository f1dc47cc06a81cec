"""Kafka 0.8's `SimpleConsumer`, and its high-level consumer, whose groups are stored in ZooKeeper."""
