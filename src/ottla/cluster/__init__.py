"""The cluster's metadata: the metadata store, the controller, the brokers' cluster images, and their requests."""
