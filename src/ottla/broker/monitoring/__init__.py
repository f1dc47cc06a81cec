"""Metrics, request log and traces of the broker."""
