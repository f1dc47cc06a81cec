"""Writing to topics and SQL databases, exactly once."""
