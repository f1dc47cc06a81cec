"""Common parts of classic, consumer and share groups."""
