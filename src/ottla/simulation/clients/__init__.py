"""Clients of a simulation that control each request: producers with the retry rules of other clients, and probes."""
