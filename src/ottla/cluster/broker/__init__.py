"""A broker as a member of its cluster: its lifecycle, metadata updates, and stored data such as configs and ACLs."""
