"""`ottla configs` and `ottla client-metrics`."""
