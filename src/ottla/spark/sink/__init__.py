"""Writing: topics and SQL databases, each batch exactly once."""
