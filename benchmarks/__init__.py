"""Benchmarks: Ottla and a peer in one run on one machine. Only figures of the same run are compared."""
