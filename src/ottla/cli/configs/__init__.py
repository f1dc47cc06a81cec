"""`ottla configs`."""
