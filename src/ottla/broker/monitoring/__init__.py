"""Metrics of the broker."""
