"""The cluster's metadata: its store, its controller, and the image in each broker."""
