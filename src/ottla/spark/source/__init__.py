"""Reading from brokers or from log directories: offsets, filters, readers and streams."""
