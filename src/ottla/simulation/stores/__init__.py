"""The stores of a simulated cluster: ZooKeeper, the embedded metadata store, and an object store."""
