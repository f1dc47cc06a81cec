"""Authentication and ACLs of clients of this broker."""
