"""The partitions that this broker leads."""
