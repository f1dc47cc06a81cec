"""`ottla cluster`: a local cluster, and actions for any running cluster."""
