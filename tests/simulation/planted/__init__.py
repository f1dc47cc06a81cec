"""Bugs to plant: each takes one promise out of the production code, in the process that simulates."""
