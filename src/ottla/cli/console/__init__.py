"""`ottla console-producer`, `ottla console-consumer` and `ottla console-share-consumer`."""
