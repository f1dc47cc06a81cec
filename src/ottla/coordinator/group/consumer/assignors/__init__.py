"""The assignors of consumer groups (KIP-848)."""
