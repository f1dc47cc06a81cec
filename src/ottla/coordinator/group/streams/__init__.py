"""Streams groups (KIP-1071): the broker creates the internal topics of Kafka Streams, and assigns tasks."""
