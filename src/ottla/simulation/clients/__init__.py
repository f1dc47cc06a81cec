"""Clients of a simulation that send single requests: producers with the rules of other clients, and probes."""
