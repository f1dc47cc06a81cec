"""How the broker shares partitions out among the members of a KIP-848 group."""
