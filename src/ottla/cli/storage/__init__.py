"""Commands for logs, offsets, records, replicas, log directories, metadata and znodes."""
