"""`ottla groups` and `ottla share-groups`."""
