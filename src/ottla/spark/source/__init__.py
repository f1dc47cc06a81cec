"""Reading: offsets, filters, readers and streams, from brokers or from their log directories."""
