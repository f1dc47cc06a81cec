"""Admin calls for topics, their partitions and offsets."""
