"""Kafka 0.8's `Producer` and `SyncProducer`."""
