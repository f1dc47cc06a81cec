"""The metadata store: one interface of znodes, over SQLite or ZooKeeper."""
