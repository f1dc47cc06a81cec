"""Metrics of the broker, and the HTTP listener for those who watch over it."""
