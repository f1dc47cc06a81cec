"""Commands for logs, offsets, log directories and metadata."""
