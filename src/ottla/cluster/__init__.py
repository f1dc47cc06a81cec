"""What the cluster agrees on: registry, controller, and the image that everybody reads."""
