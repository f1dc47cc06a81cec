"""`ottla consumer-groups`."""
