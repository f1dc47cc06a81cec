"""The cluster's metadata: metadata store, controller, cluster images, brokers, inter-broker requests and migrations."""
