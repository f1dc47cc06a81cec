"""The runtime that all coordinators share: the log, loading of its partitions, deadlines, and results of requests."""
