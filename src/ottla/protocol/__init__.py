"""Bytes and messages of Kafka's wire protocol, without I/O."""
