"""`ottla groups`, `ottla share-groups` and `ottla streams-groups`."""
