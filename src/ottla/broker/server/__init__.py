"""A running broker: its parts, its listeners and its metadata store."""
