"""Positions, commits and offset lookups."""
