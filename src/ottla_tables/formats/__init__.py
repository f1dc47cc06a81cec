"""Table formats: each one commits Parquet files together with the offsets at which to continue."""
