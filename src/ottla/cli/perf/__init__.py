"""Performance tests and verifiable clients."""
