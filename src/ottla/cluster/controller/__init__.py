"""The controller: its election, its changes of the cluster's metadata, and its requests to the brokers."""
