"""`ottla cluster`: runs a cluster on this machine."""
