"""The cluster's metadata in a broker: an immutable image, the delta of two images, and the cache of the current one."""
