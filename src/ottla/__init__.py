"""Ottla: Kafka, in Python."""
