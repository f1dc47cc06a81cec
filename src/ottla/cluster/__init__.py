"""What the cluster agrees on: store, controller, and the image that everybody reads."""
