"""The cluster as a broker knows it: an immutable image, its changes, and the cache that holds it."""
