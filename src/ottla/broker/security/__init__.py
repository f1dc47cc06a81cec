"""Authentication of the broker's clients, and requests about ACLs."""
