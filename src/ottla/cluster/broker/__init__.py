"""A broker as a member of its cluster: registration, metadata updates, dynamic configs, ACLs."""
