"""`ottla acls` and `ottla delegation-tokens`."""
