"""The broker: what it serves, and how it is put together."""
