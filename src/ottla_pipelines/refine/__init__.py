"""Computing tables from topics exactly once, with Structured Streaming, `format("ottla")`, SQL and Parquet."""
