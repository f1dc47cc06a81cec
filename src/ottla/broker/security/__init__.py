"""Authentication and authorization of the broker's clients."""
