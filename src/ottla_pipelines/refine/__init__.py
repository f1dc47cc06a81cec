"""From topics to tables, exactly once: Structured Streaming over `format("ottla")`, SQL and Parquet."""
