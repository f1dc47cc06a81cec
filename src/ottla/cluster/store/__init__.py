"""Where the cluster's metadata is kept: one interface of znodes, over SQLite or ZooKeeper."""
