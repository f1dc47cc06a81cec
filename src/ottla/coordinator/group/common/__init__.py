"""Common parts of classic, consumer, share and streams groups."""
