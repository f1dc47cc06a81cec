"""Kafka's on-disk format: segments, indexes, logs, recovery, retention, compaction, log directories."""
