"""Kafka's on-disk format: segments, indexes, the log over them, recovery, retention, compaction, the data directory."""
