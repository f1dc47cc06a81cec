"""What classic, consumer and share groups have in common."""
