"""The broker: its wiring, its table of APIs, and their handlers."""
