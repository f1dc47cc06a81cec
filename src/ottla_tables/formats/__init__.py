"""Table formats: each one commits Parquet files together with the offsets that they contain."""
