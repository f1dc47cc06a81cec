"""Logs, offsets, data directories and metadata."""
