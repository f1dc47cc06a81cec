"""`ottla console-producer` and `ottla console-consumer`."""
