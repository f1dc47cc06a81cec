"""The cluster's metadata: the metadata store, the controller, and the cluster image in each broker."""
