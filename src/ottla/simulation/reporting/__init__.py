"""Shrunk plans and stories of runs that broke a promise."""
