"""`ottla topics` and `ottla create-topic`."""
