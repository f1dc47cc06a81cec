"""Topics, their partitions and offsets."""
