"""Calls about topics, their partitions and offsets."""
