"""Writing to topics and SQL databases: exactly once in streams and, with sinkId, in foreachBatch."""
