"""Fetch sessions and share sessions of clients."""
