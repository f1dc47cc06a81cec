"""`ottla cluster`: a cluster on this machine."""
