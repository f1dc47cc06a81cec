"""Bugs to plant: each removes one guarantee from the production code, in the process of the simulation."""
