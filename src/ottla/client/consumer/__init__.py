"""The consumer: group membership, positions, fetching."""
