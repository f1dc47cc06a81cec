"""`ottla reassign-partitions`."""
